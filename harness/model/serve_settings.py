"""`[tool.harness.serve]`: where the project's server listens, and how long it keeps what agents may ask for again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, field_validator, model_validator

from harness.model.service_settings import HIGHEST_PORT
from harness.recovery.declaration import Declaration

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""The hosts that only this machine reaches."""
_SERVE_PORT: Final = "HARNESS_SERVE_PORT"
"""The environment variable that overrides `port`."""


class ServeSettings(Declaration):
    """`[tool.harness.serve]`: the server of `harness serve` and of `--agent bridge`."""

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address to listen on. One that other machines reach needs `tls_cert`, or `--insecure`.",
    )
    port: int = Field(0, ge=0, le=HIGHEST_PORT, description="0 takes a free one, which is kept in .harness/serve.json.")
    grace: float = Field(
        300.0,
        ge=0,
        le=86_400,
        description="Seconds that a session waits for its client to come back.",
    )
    replay_bytes: int = Field(
        102_400,
        ge=0,
        le=4 * 1024 * 1024,
        description="Bytes of a session's messages that are kept for a client that was cut off.",
    )
    replay_seconds: float = Field(1800.0, ge=0, le=86_400, description="Seconds for which these messages are kept.")
    answer_ttl: float = Field(30.0, gt=0, le=3600, description="Seconds for which a late answer is kept.")
    sessions: int = Field(50, ge=1, le=1000, description="Sessions of agents that may be open at once.")
    tasks: tuple[str, ...] = Field(
        ("tasks",),
        min_length=1,
        description="Files and folders whose tasks agents may take from `harness serve`.",
    )
    workers: int = Field(4, ge=1, le=100, description="Tasks that `harness serve` runs at once.")
    tls_cert: Path | None = Field(None, description="Certificate for https (PEM). Needs `tls_key`.")
    tls_key: Path | None = Field(None, description="Its key (PEM).")

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any) -> Any:
        """Nothing here is yes or no, and pydantic would take `true` for the number 1."""
        if isinstance(value, bool):
            raise ValueError("must not be true or false")  # noqa: TRY004 - pydantic adds the place to a ValueError
        return value

    @field_validator("tasks")
    @classmethod
    def _tasks_are_in_the_project(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        for each in tasks:
            if not each:
                raise ValueError('an entry is empty: "." is the whole project')
            if Path(each).is_absolute() or os.pardir in Path(os.path.normpath(each)).parts:
                raise ValueError(f"{each!r} is outside of the project: name files and folders relative to it")
        return tasks

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            there, missing = ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            raise ValueError(f"`{there}` needs `{missing}` beside it")
        return self

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        return self.host in _LOOPBACK

    def certificate(self, root: Path) -> tuple[Path, Path] | None:
        """The files of the certificate and of its key; None without TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return root / self.tls_cert, root / self.tls_key


def serve_port_of(environ: Mapping[str, str]) -> int | None:
    """The port of `HARNESS_SERVE_PORT`; None if it is not set. Raises ValueError."""
    text = environ.get(_SERVE_PORT, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= HIGHEST_PORT):
        raise ValueError(f"{_SERVE_PORT}: {text!r} is no port from 0 to {HIGHEST_PORT}")
    return int(text)
