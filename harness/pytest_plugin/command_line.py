"""The command line of a run as it may be kept: without what is secret in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from harness.model.settings import OPTIONS, Settings, names
from harness.reporting.redaction import MARK, Redactor, is_secret_name
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded

Hide = Callable[[str], str]


def redactor_of(settings: Settings, tasks: Sequence[Loaded], environ: Mapping[str, str]) -> Redactor:
    """Hides what tasks and settings call secret, and what the environment has under such a name."""
    names = {name for task in tasks for name in environment_names(task.spec)}
    secrets = (value for name, value in environ.items() if name in names or is_secret_name(name))
    return Redactor.of(settings, secrets)


def without_secrets(arguments: Sequence[object], redactor: Redactor) -> Iterator[str]:
    """An option that is called like a secret hides its value, whether that follows after `=` or as the next word.

    Of the URLs of browser endpoints the hosts stay.
    """
    hide: Hide | None = None
    for argument in map(str, arguments):
        name, equals, value = argument.partition("=")
        hidden = _hidden(name)
        if hide and not argument.startswith("-"):
            yield hide(argument)
        elif hidden and equals:
            yield f"{name}={hidden(value)}"
        else:
            yield redactor.text(argument)
        hide = None if equals else hidden


def _hidden(option: str) -> Hide | None:
    """What stands for the value of an option that may be secret."""
    if option in OPTIONS:
        return lambda urls: ",".join(names([url.strip() for url in urls.split(",") if url.strip()]))
    return (lambda _: MARK) if option.startswith("-") and is_secret_name(option) else None
