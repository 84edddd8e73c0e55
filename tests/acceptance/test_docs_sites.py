"""The documented commands of projects that have agents, sites of their own, or nothing yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.acceptance.documented import Command
from tests.acceptance.documented_rules import Ran, Served
from tests.acceptance.documented_runs import Sandbox
from tests.acceptance.documented_tests import commands_in, does_what_its_page_says

PROJECTS = ("agents", "fresh", "kept", "started", "tools")


@pytest.fixture(scope="module")
def sandbox(sites: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with closing(Sandbox(tmp_path_factory.mktemp("documented"), sites)) as sandbox:
        yield sandbox


@commands_in(*PROJECTS)
@pytest.mark.sampled(5)
def test_the_command_does_what_its_page_says(sandbox: Sandbox, command: Command, rule: Ran | Served) -> None:
    does_what_its_page_says(sandbox, command, rule)
