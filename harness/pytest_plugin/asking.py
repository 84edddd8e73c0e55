"""Asking the person at the terminal (`on_state_inconsistency: manual_resolution`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[[str, tuple[str, ...]], str | None]


def person(config: pytest.Config) -> Ask | None:
    """Who can be asked; None in CI, under xdist, and wherever no terminal is."""
    alone = not hasattr(config, "workerinput") and not config.getoption("numprocesses", None)
    if not (alone and sys.__stdin__ and sys.__stdin__.isatty() and sys.__stdout__ and sys.__stdout__.isatty()):
        return None
    return lambda question, choices: _ask(config, question, choices)


def _ask(config: pytest.Config, question: str, choices: tuple[str, ...]) -> str | None:
    """One of the choices, by its number or its name; None for an empty line or the end of the input."""
    numbered = ", ".join(f"{number}: {choice}" for number, choice in enumerate(choices, 1))
    with _uncaptured(config):
        print(f"\n{question}\n{numbered}, empty: neither", flush=True)  # noqa: T201 - it is a conversation
        while True:
            try:
                answer = input("> ").strip()
            except EOFError:
                return None
            if not answer:
                return None
            if answer.isdigit() and 1 <= int(answer) <= len(choices):
                return choices[int(answer) - 1]
            if answer in choices:
                return answer
            print(f"please answer {numbered}, or nothing", flush=True)  # noqa: T201


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Any:
    """pytest's capturing off, of the input too."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    capture.suspend(in_=True)
    try:
        yield
    finally:
        capture.resume()
