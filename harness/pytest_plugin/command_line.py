"""The command line of a run as it may be kept: without what is secret in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from harness.reporting.redaction import MARK, Redactor
from harness.reporting.secrets import is_secret_name
from harness.settings import Settings
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded

_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""`user:password` of a URL."""


def redactor_of(settings: Settings, tasks: Sequence[Loaded], environ: Mapping[str, str]) -> Redactor:
    """Hides what tasks and settings call secret, and what the environment has under such a name."""
    names = {name for task in tasks for name in environment_names(task.spec)}
    secrets = (value for name, value in environ.items() if name in names or is_secret_name(name))
    return Redactor(secrets, settings.redact)


def without_secrets(arguments: Sequence[object], redactor: Redactor) -> Iterator[str]:
    """An option that is called like a secret hides its value, whether that follows after `=` or as the next word."""
    hide = False
    for argument in map(str, arguments):
        name, equals, _ = argument.partition("=")
        secret = name.startswith("-") and is_secret_name(name)
        if hide and not argument.startswith("-"):
            yield MARK
        elif secret and equals:
            yield f"{name}={MARK}"
        else:
            yield _LOGIN.sub(MARK, redactor.text(argument))
        hide = secret and not equals
