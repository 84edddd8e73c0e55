"""Which test a result is of, as allure-pytest says it: for results that its hooks could not finish, or begin."""

from __future__ import annotations

import hashlib

from allure_commons.model2 import Label, TestResult

from harness.reporting.allure_labels import label_pairs, plain_title, tags
from harness.spec.task import TaskSpec


def name_test(test: TestResult, node_id: str, spec: TaskSpec) -> None:
    """What allure-pytest says when the item is set up: the test of a node id keeps its name in every run."""
    file, _, function = node_id.partition("::")
    test.name = plain_title(spec)
    test.description = spec.goal
    test.titlePath = file.split("/")
    test.fullName = f"{'.'.join([*test.titlePath[:-1], _module(test.titlePath)])}#{function}"
    test.testCaseId = _md5(test.fullName)


def finish_identity(test: TestResult, spec: TaskSpec) -> None:
    """What allure-pytest says when the item is torn down: its history, labels, suites."""
    test.historyId = test.testCaseId
    test.labels += [Label(name, value) for name, value in label_pairs(spec)]
    test.labels += [Label("tag", name) for name in tags(spec)]
    path = test.titlePath or [""]
    suites = {"parentSuite": ".".join(path[:-1]), "suite": _module(path), "framework": "pytest"}
    test.labels += [Label(name, value) for name, value in suites.items() if value]


def _module(path: list[str]) -> str:
    return path[-1].rpartition(".")[0] or path[-1]


def _md5(text: str) -> str:
    """Not for secrecy: allure-pytest names tests so."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
