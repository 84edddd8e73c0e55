"""`browser:` of a task, of the project and of its profiles: the browser context in which a task runs.

The names are those of Playwright's `browser.new_context`; a `device` is a set of them from Playwright's registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from harness.recovery.declaration import Declaration
from harness.spec.problems import did_you_mean

_PERMISSIONS = (
    *("geolocation", "notifications", "camera", "microphone", "clipboard-read", "clipboard-write", "midi"),
    *("midi-sysex", "background-sync", "ambient-light-sensor", "accelerometer", "gyroscope", "magnetometer"),
    *("payment-handler", "storage-access", "local-fonts", "local-network-access", "screen-wake-lock"),
)
"""The permissions that Chromium grants."""
_LOCALE = re.compile(
    r"[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_]([A-Za-z]{2}|[0-9]{3}))?"  # language, script, region
    r"([-_]([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*([-_][A-Za-z0-9]([-_][A-Za-z0-9]{2,8})+)*"  # variants, extensions
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OF_CHROMIUM = frozenset((
    *("content-length", "cookie2", "host", "keep-alive", "proxy-authorization", "proxy-connection", "set-cookie"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
))  # fmt: skip
"""The headers that Chromium lets nobody set: it would refuse every request."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LATER = "${"
"""A text with a reference is checked when it is filled in."""


@cache
def devices() -> tuple[str, ...]:
    """The names of Playwright's registry of devices, as of the oldest Playwright that is supported."""
    return tuple(Path(__file__).with_name("devices.txt").read_text("utf-8").splitlines())


def known_device(name: str) -> str:
    """Return the name; raises ValueError for an unknown device."""
    if _LATER not in name and name not in devices():
        hint = did_you_mean(name, devices())
        raise ValueError(f"Playwright has no device {name!r}{f': {hint}' if hint else ', such as `iPhone 13`'}")
    return name


def _timezone(name: str) -> str:
    """Return the name; raises ValueError for one that the time zone database does not have."""
    from zoneinfo import available_timezones  # few tasks have a time zone

    known = () if _LATER in name else available_timezones()  # empty on a machine without the database
    if known and name not in known:
        hint = did_you_mean(name, known)
        raise ValueError(f"there is no time zone {name!r}{f': {hint}' if hint else ', such as `Europe/Berlin`'}")
    return name


def _locale(name: str) -> str:
    if _LATER not in name and not _LOCALE.fullmatch(name):
        raise ValueError(f"{name!r} is not a locale, such as `de-DE`")
    return name


def checked_permission(name: str) -> str:
    """Return the name; raises ValueError for a permission that Chromium does not know."""
    if _LATER not in name and name not in _PERMISSIONS:
        hint = did_you_mean(name, _PERMISSIONS) or f"the permissions are {', '.join(_PERMISSIONS)}"
        raise ValueError(f"Chromium has no permission {name!r}: {hint}")
    return name


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers; raises ValueError for a name or a value that HTTP does not allow."""
    for name, value in headers.items():
        if name.lower() == "user-agent":
            raise ValueError("`user_agent` sets this header, and appends the world's id to it")
        if name.lower() in _OF_CHROMIUM or name.lower().startswith("sec-fetch-"):
            raise ValueError(f"Chromium sets the header {name} itself: leave it out")
        if problem := header_problem(name, value):
            raise ValueError(problem)
    return headers


def header_problem(name: str, value: str) -> str:
    """The reason why HTTP does not allow a header; empty if it does."""
    if not _HEADER.fullmatch(name):
        return f"{name!r} is not the name of a header"
    if "\n" in value or "\r" in value:
        return f"the value of {name} has more than one line"
    return f"the value of {name} has a control character" if _CONTROL.search(value) else ""


def _user_agent(name: str) -> str:
    if _CONTROL.search(name):
        raise ValueError("a User-Agent has no line breaks and no control characters")
    return name


def _origin(text: str) -> str:
    """Return the origin; raises ValueError for one that no URL of a page has, so that the credentials never act."""
    if _LATER in text:
        return text
    try:
        parts = urlsplit(text)
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        whole = bool(usual and parts.hostname) and parts.port != usual and "@" not in parts.netloc
    except ValueError:  # the port is no number
        whole = False
    if not whole or text != f"{parts.scheme}://{parts.netloc}":
        raise ValueError(f"{text!r} is not an origin: write scheme and host, such as `http://shop.test`")
    return text


def _size(value: object) -> object:
    """`{width: 390, height: 844}` is the same as `[390, 844]`."""
    if isinstance(value, Mapping) and set(value) == {"width", "height"}:
        return (value["width"], value["height"])
    return tuple(value) if isinstance(value, list) else value


_Side = Annotated[int, Field(ge=1, le=20_000)]
Size = Annotated[tuple[_Side, _Side], BeforeValidator(_size)]
"""Width and height, in pixels."""


class Geolocation(Declaration):
    """Where the browser says it is."""

    latitude: float = Field(ge=-90, le=90, description="Position to the north, in degrees.")
    longitude: float = Field(ge=-180, le=180, description="Position to the east, in degrees.")
    accuracy: float = Field(0, ge=0, description="Radius of the uncertainty, in metres.")


class HttpCredentials(Declaration):
    """The user and password of HTTP authentication."""

    username: str = Field(description="Name of the user.")
    password: str = Field(description="Password, best as `${env:NAME}`. It is redacted everywhere.")
    origin: Annotated[str, AfterValidator(_origin)] | None = Field(
        None, description="Origin that gets them, such as `http://shop.test`. Default: every site that asks."
    )
    send: Literal["always", "unauthorized"] = Field(
        "unauthorized",
        description="When `api` steps send them: always, or after an answer 401. Pages always wait for a 401.",
    )


class ContextOptions(Declaration):
    """What the browser context of a task emulates."""

    device: Annotated[str, AfterValidator(known_device)] | None = Field(
        None,
        description="A device of Playwright's registry, such as `iPhone 13`: its viewport, user agent, pixel ratio "
        "and touch, in Chromium. The other keys override its values.",
    )
    viewport: Size | None = Field(
        None, description="Width and height of pages, as `[390, 844]` or `{width: 390, height: 844}`, in pixels."
    )
    locale: Annotated[str, AfterValidator(_locale)] | None = Field(
        None,
        description="Language of the browser, such as `de-DE`: `navigator.language`, `Accept-Language`, formats. "
        "Numbers in texts are read as it writes them; en-US by default.",
    )
    timezone: Annotated[str, AfterValidator(_timezone)] | None = Field(
        None, description="Time zone of the browser, such as `Europe/Berlin`."
    )
    geolocation: Geolocation | None = Field(
        None,
        description="Where the browser says it is. Without `permissions`, it grants pages the permission "
        "`geolocation`; with `permissions`, pages may ask for the position only if `geolocation` is among them.",
    )
    permissions: tuple[Annotated[str, AfterValidator(checked_permission)], ...] | None = Field(
        None, description="Permissions that every page has without asking, such as `[geolocation, clipboard-read]`."
    )
    color_scheme: Literal["light", "dark", "no-preference"] | None = Field(
        None, description="Answer to `prefers-color-scheme`."
    )
    reduced_motion: Literal["reduce", "no-preference"] | None = Field(
        None, description="Answer to `prefers-reduced-motion`."
    )
    offline: bool | None = Field(None, description="Whether the browser has no network.")
    user_agent: Annotated[str, Field(min_length=1), AfterValidator(_user_agent)] | None = Field(
        None, description="User-Agent; the world's id is appended to it. Default: that of the browser or the device."
    )
    extra_headers: Annotated[dict[str, str], AfterValidator(checked_headers)] | None = Field(
        None, description="Headers of every request. They make requests to other origins preflight."
    )
    http_credentials: HttpCredentials | None = Field(None, description="User and password of HTTP authentication.")
    ignore_https_errors: bool | None = Field(None, description="Whether certificates that are not valid are accepted.")
    java_script: bool | None = Field(None, description="Whether pages run their scripts.")
    service_workers: Literal["allow", "block"] | None = Field(
        None, description="Whether pages may register service workers."
    )
    test_id_attribute: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.:-]*$", max_length=100)] | None = Field(
        None, description="Attribute that `testid=` and `test_id` look at. Default: `data-testid`."
    )

    @property
    def declared(self) -> dict[str, Any]:
        """The keys that were given, with their values; None takes back what others say."""
        return {name: getattr(self, name) for name in ContextOptions.model_fields if name in self.model_fields_set}

    @property
    def values_given(self) -> dict[str, Any]:
        """The values that may contain references, as the file has them."""
        return {name: value for name, value in self.model_dump(exclude_unset=True).items() if value is not None}


def merged(layers: Iterable[ContextOptions]) -> ContextOptions:
    """One set of options; a later layer overrides an earlier one. Pure.

    A `device` overrides the `viewport` and `user_agent` of earlier layers, since it has its own. A key without a value
    takes back what earlier layers say.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        declared = layer.declared
        if "device" in declared:
            values = {name: each for name, each in values.items() if name not in ("viewport", "user_agent")}
        values |= declared
    given = {name: each for name, each in values.items() if each is not None}
    return ContextOptions.model_construct(set(given), **given)


_OURS = ("device", "test_id_attribute")
_PLAYWRIGHT = {"timezone": "timezone_id", "extra_headers": "extra_http_headers", "java_script": "java_script_enabled"}
"""Key -> Playwright's name of it, where they differ."""


def playwright_options(options: ContextOptions, device: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of Playwright's `new_context`. Pure.

    `device` is the description from Playwright's registry; it is empty without a device.
    """
    found = {name: value for name, value in device.items() if name != "default_browser_type"}
    given = {name: value for name, value in options.declared.items() if name not in _OURS}
    found |= {_PLAYWRIGHT.get(name, name): _in_its_form(name, value) for name, value in given.items()}
    if found.get("geolocation") and found.get("permissions") is None:  # else no page could ask for the position
        found["permissions"] = ["geolocation"]
    return found


def _in_its_form(name: str, value: Any) -> Any:
    if name == "viewport":
        return {"width": value[0], "height": value[1]}
    if isinstance(value, Declaration):
        return value.model_dump(exclude_none=True)
    return list(value) if isinstance(value, tuple) else value
