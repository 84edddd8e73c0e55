"""GitHub's workflow commands: `::error file=...,line=...::message`, which it shows beside the line."""

from __future__ import annotations

from collections.abc import Mapping


def workflow_command(name: str, message: str, properties: Mapping[str, object]) -> str:
    """One line; what is empty is left out, and no text ends the command or begins another one."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
