"""The workers of xdist are forked where the imports end, when the tests have been imported once for all of them.

Each worker would import them for itself otherwise: half of what the collection of the whole suite costs it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import find
from hypothesis.strategies import just

from tests.acceptance.warm import warm
from tests.acceptance.warm_workers import fork_workers

ROOT = Path(__file__).parents[1]
LATER = ("pydantic_ai.models.anthropic", "pydantic_ai.models.openai")
"""What tests of models import only as they run: two seconds, for each worker that has one of them."""
USUAL = gc.get_threshold()
"""How often Python searches for garbage: the controller does it rarely while it imports, and a worker begins anew."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[object]) -> None:
    """Fork them, before anything of the run is in the way; a fork goes no further than this."""
    modules = list(test_modules(config.args, config.invocation_params.dir))
    if any(name.startswith("tests.acceptance.") for name in modules):
        warm()  # one for all of them; it makes its own imports at the same time
    import_all((*modules, *(LATER if any(name.startswith("tests.unit.models.") for name in modules) else ())))
    find(just(None), lambda _: True)  # Hypothesis reads the constants of all modules when it is first asked
    gc.collect()
    gc.freeze()  # it is shared by all
    rare = gc.get_threshold()
    gc.set_threshold(*USUAL)
    if fork_workers(len(specs)):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # what the controller has registered for its end is none of the worker's business
    gc.set_threshold(*rare)


def test_modules(arguments: Sequence[str], folder: Path) -> Iterator[str]:
    """The modules that are below these paths, under the names that pytest gives them."""
    paths = dict.fromkeys(path for each in arguments for path in _files(folder / each.partition("::")[0]))
    return (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)


def import_all(modules: Iterable[str]) -> None:
    for name in modules:
        with suppress(Exception, pytest.skip.Exception), warnings.catch_warnings():  # whoever collects it tells it
            warnings.simplefilter("error")
            importlib.import_module(name)


def _files(path: Path) -> Iterator[Path]:
    path = path.resolve()
    if path.is_relative_to(ROOT):
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
