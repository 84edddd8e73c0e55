"""Faults of the network: at the socket, between browser and site, or in the browser itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from harness.spec.faults.base import LONGEST, LastingFault, Lasts, RequestFault, StepFault
from harness.spec.url_patterns import BODILESS

NetError = Literal[
    "access_denied", "address_unreachable", "blocked_by_client", "blocked_by_response", "connection_aborted",
    "connection_closed", "connection_failed", "connection_refused", "connection_reset", "failed", "timed_out",
]  # fmt: skip
TlsProblem = Literal["untrusted", "protocol"]


class HostFault(StepFault):
    """One that strikes a whole host."""

    host: str = Field(min_length=1, max_length=253, description="A host of `[tool.harness.services]`.")

    @property
    def target(self) -> str:
        return self.host


class Refuse(HostFault):
    """The host's listener is closed, for a number of connections or for some seconds."""

    kind: Literal["refuse"] = "refuse"
    connections: int | None = Field(
        None, ge=1, le=10_000, description="How many connections are refused, as a number of connections."
    )
    seconds: float | None = Field(
        None, gt=0, le=LONGEST, description="How long all connections are refused, in seconds."
    )

    @model_validator(mode="after")
    def _heals_one_way(self) -> Refuse:
        if (self.connections is None) == (self.seconds is None):
            raise ValueError("`refuse` needs either `connections` or `seconds`: how long it lasts")
        return self


class Tls(HostFault, LastingFault):
    """The host's https has a certificate that nobody accepts, or its answer is not TLS.

    Open connections go on; `api` steps use plain http for the host, so this fault does not strike them.
    """

    kind: Literal["tls"] = "tls"
    problem: TlsProblem = Field(
        "untrusted", description="A certificate that nobody trusts, or a response that is not TLS."
    )
    seconds: Lasts = None


class Offline(LastingFault):
    """The browser has no network."""

    kind: Literal["offline"] = "offline"
    seconds: Lasts = None


class Hang(RequestFault):
    """Requests are accepted, and dropped without an answer after some seconds."""

    kind: Literal["hang"] = "hang"
    seconds: float = Field(30, ge=0, le=LONGEST, description="Delay until a request is dropped, in seconds.")


class Reset(RequestFault):
    """The connection is reset (RST) instead of an answer."""

    kind: Literal["reset"] = "reset"
    commit: bool = Field(
        False, description="Whether the site gets the request and does its work, so that only its response is lost."
    )


class Empty(RequestFault):
    """The connection is closed normally, without a byte of an answer."""

    kind: Literal["empty"] = "empty"


class Garbage(RequestFault):
    """The answer is not HTTP."""

    kind: Literal["garbage"] = "garbage"


class Truncate(RequestFault):
    """The response breaks off in its body; a response without a body is lost completely (RST)."""

    kind: Literal["truncate"] = "truncate"
    bytes: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="How much of the body arrives before the connection breaks, never all of it, as a number of bytes.",
    )


class Slow(RequestFault):
    """The response begins late, or arrives slowly."""

    kind: Literal["slow"] = "slow"
    seconds: float = Field(0, ge=0, le=LONGEST, description="Delay before the response begins, in seconds.")
    bytes_per_second: int | None = Field(
        None, ge=1, le=10_000_000, description="Speed of the response, per second, as a number of bytes."
    )

    @property
    def lasts(self) -> float | None:
        return None

    @model_validator(mode="after")
    def _slows(self) -> Slow:
        if not self.seconds and self.bytes_per_second is None:
            raise ValueError("`slow` needs `seconds`, `bytes_per_second` or both: how slow it is")
        return self


class Status(RequestFault):
    """The answer is a response with an HTTP status; the site does not see the request."""

    kind: Literal["status"] = "status"
    status: int = Field(ge=200, le=599, description="Status of the response, as an HTTP status.")
    retry_after: float | None = Field(
        None, ge=0, le=LONGEST, description="`Retry-After` header of the response, in seconds."
    )
    body: str = Field(
        "", max_length=100_000, description="Body of the response, as text. Default: a line that names the fault."
    )

    @model_validator(mode="after")
    def _may_have_a_body(self) -> Status:
        if self.body and self.status in BODILESS:
            raise ValueError(f"an answer of status {self.status} has no body: leave `body` out")
        return self


class Dns(RequestFault):
    """The browser cannot resolve the name."""

    kind: Literal["dns"] = "dns"


class Abort(RequestFault):
    """The browser ends the request with a network error of its own."""

    kind: Literal["abort"] = "abort"
    error: NetError = Field(
        "failed", description="Chromium's name of the error, without `net::ERR_` and in lower case."
    )
