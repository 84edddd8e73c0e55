"""Asking the person at the terminal (`on_state_inconsistency: manual_resolution`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[[str, tuple[str, ...]], str | None]


def person(config: pytest.Config) -> Ask | None:
    """Who can be asked; None under xdist. In CI, and wherever no terminal is, nobody answers."""
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None):
        return None
    return lambda question, choices: _ask(config, question, choices)


def _ask(config: pytest.Config, question: str, choices: tuple[str, ...]) -> str | None:
    """One of the choices, by its number or its name; None for an empty line, the end of the input, no terminal."""
    numbered = ", ".join(f"{number}: {choice}" for number, choice in enumerate(choices, 1))
    with _uncaptured(config):
        if not _terminal():
            return None
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


def _terminal() -> bool:
    """Whether a person can read and type. While pytest captures, its files stand in place of the terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stdout__))


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
