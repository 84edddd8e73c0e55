"""Routes and expected requests of a test, as a task has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.spec.imported.acts import glob_of
from harness.spec.imported.expecting import from_glob
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import LineOfTest, Native, Opaque, PageCheck, PageRead, Regex, data_of, said
from harness.spec.recorded.locators import UnwritableError


def handled_route(url: str, calls: list[tuple[str, list[Any], dict[str, Any]]]) -> dict[str, Any] | None:
    """The keys of a route by what its handler has done; None for one that changes nothing. Raises UnwritableError."""
    if len(calls) != 1:
        raise UnwritableError("what this handler of requests does cannot be said in a route")
    name, args, kwargs = calls[0]
    if name in ("continue_", "fallback") and not kwargs and not args:
        return None
    if name == "abort":
        raise UnwritableError("an aborted request is a fault: declare `faults` of the type `abort`")
    if name != "fulfill" or args:
        raise UnwritableError(f"a route has nothing for `{name}`: `patch` changes the site's answer")
    return {"url": url, **_answer(dict(kwargs))}


def _answer(given: dict[str, Any]) -> dict[str, Any]:
    headers = data_of(given.pop("headers", None) or {})
    if (kind := given.pop("content_type", None)) is not None:
        headers["content-type"] = said(kind)
    names = {"status": "status", "json": "json", "body": "body", "path": "file"}
    if other := next((name for name in given if name not in names), ""):
        raise UnwritableError(f"a route has nothing for the option `{other}`")
    keys = {names[name]: data_of(value) for name, value in given.items() if value is not None}
    if not {"json", "body", "file", "status"} & keys.keys():
        keys["status"] = 200
    return {**keys, **({"headers": headers} if headers else {})}


def wanted_request(aim: Any, followed: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The keys of a request that is waited for, by its URL or by a condition. Raises UnwritableError."""
    if isinstance(aim, str) or hasattr(aim, "text"):
        return {"url": from_glob(said(aim))}
    if isinstance(aim, Regex):
        return {"url": glob_of(aim)}
    if aim is None:
        raise UnwritableError("a request is named by its URL")
    probe = LineOfTest()
    found = followed(aim, Opaque("exchange", data=probe))
    if not isinstance(found, PageCheck) and found is not True:
        raise UnwritableError("this condition for a request cannot be said in a task")
    return _from_condition(found.text if isinstance(found, PageCheck) else "", probe)


def _from_condition(text: str, probe: LineOfTest) -> dict[str, Any]:
    """The keys by a condition such as `ALL[request.url includes '/a', request.method == 'POST']`."""
    keys: dict[str, Any] = {}
    inner = text.removeprefix("ALL[").removesuffix("]") if text.startswith("ALL[") else text
    for each in inner.split(", request."):
        name, _, rest = each.removeprefix("request.").partition(" ")
        sign, _, value = rest.partition(" ")
        bare = value[1:-1]
        if "'" in bare or (name, sign) not in _SAID:
            raise UnwritableError("this condition for a request cannot be said in a task")
        key, form = _SAID[name, sign]
        if key in keys:
            raise UnwritableError("this condition for a request cannot be said in a task")
        keys[key] = int(value) if key == "status" else form.format(bare)
    if "status" in probe.keys:
        keys["status"] = probe.keys["status"]
    if "url" not in keys:
        raise UnwritableError("a request is named by its URL")
    return keys


_SAID = {
    ("url", "includes"): ("url", "*{}*"),
    ("url", "=="): ("url", "{}"),
    ("method", "=="): ("method", "{}"),
    ("status", "=="): ("status", "{}"),
}


def exchange_attribute(script: TestScript, owner: Opaque, name: str) -> Any:
    """An attribute, or what a method without arguments gives, of a response. Raises UnwritableError."""
    line: LineOfTest = owner.data
    if name in ("status", "ok"):
        if owner.kind == "exchange" and not line.keys:
            return PageRead("request.status", None, kind="plain")
        read = PageRead("status", line, kind="status")
        return read if name == "status" else True
    if owner.kind == "exchange" and not line.keys:
        return _of_probe(owner, name)
    if name in ("json", "text", "body") and owner.kind == "answer":
        return _given(PageRead("result()", line, kind="answer"))
    if name == "finished":
        return None
    wanted = line.keys.get("expect_request")
    if wanted and name == "url":
        return PageRead(f"responses('{wanted['url']}')[-1].url")
    if wanted and name == "json":
        return _given(PageRead(f"responses('{wanted['url']}')[-1].json", kind="document"))
    raise UnwritableError(f"what `{name}` of an answer is cannot be said in a task")


def _given(read: PageRead) -> Native:
    return Native(lambda: read)


def _of_probe(owner: Opaque, name: str) -> Any:
    if name == "request":
        return owner
    if name in ("url", "method"):
        return PageRead(f"request.{name}")
    raise UnwritableError(f"a request cannot be named by its `{name}`")
