"""`api`: an HTTP request with the page's cookies, to the host's real port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.cookies import CookieError, SimpleCookie
from typing import Any

from playwright.async_api import APIRequestContext, APIResponse
from playwright.async_api import Error as PlaywrightError

from harness.browser import domains
from harness.browser.attempt import Attempt
from harness.browser.network import api_failure, status_code, status_failure
from harness.failure import Effect, Failed, Failure
from harness.spec.steps import Api

BODY_BYTES = 10_000
REDIRECTS = 10


async def api(attempt: Attempt, step: Api) -> Mapping[str, Any]:
    url = domains.resolve(step.url, attempt.request.base_url)
    requests = await attempt.playwright.request.new_context(user_agent=attempt.user_agent)
    try:
        url, response = await _follow(attempt, step, requests, url)
        details = {"status": response.status, "body": await _body(response)}
    finally:
        await requests.dispose()
    _judge(attempt, step, url, response, details)
    return details


async def _follow(attempt: Attempt, step: Api, requests: APIRequestContext, url: str) -> tuple[str, APIResponse]:
    """Ask, and follow redirects by hand: each hop maps its own host and keeps to the allowed domains."""
    method, body = step.method, step.value
    for _ in range(REDIRECTS):
        domains.check(url, attempt.request.allowed_domains)
        response = await _send(attempt, step, requests, url, method, body)
        await _store_cookies(attempt, url, response)
        location = response.headers.get("location")
        if not 300 <= response.status < 400 or not location or step.status == response.status:
            return url, response
        url = domains.resolve(location, url)
        if response.status not in (307, 308) and method != "HEAD":
            method, body = "GET", None
    raise Failed(Failure("NET_TOO_MANY_REDIRECTS", f"{step.url} redirects in a circle", details={"url": url}))


async def _send(
    attempt: Attempt, step: Api, requests: APIRequestContext, url: str, method: str, body: Any
) -> APIResponse:
    target, host = domains.mapped(url, attempt.request.hosts)
    cookies = await attempt.tab.context.cookies(url)
    headers = {"cookie": "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in cookies)} if cookies else {}
    headers |= {"host": host} if host else {}
    headers |= {name.lower(): value for name, value in step.headers.items()}
    if body is not None and not isinstance(body, str):
        body = json.dumps(body)
        headers.setdefault("content-type", "application/json")
    try:
        return await requests.fetch(
            target, method=method, headers=headers, data=body, max_redirects=0, timeout=attempt.ms()
        )
    except PlaywrightError as error:
        failure = api_failure(error.message.splitlines()[0].partition(": ")[2], url)
        raise Failed(failure) from error


async def _store_cookies(attempt: Attempt, url: str, response: APIResponse) -> None:
    """What the answer sets, the page has too."""
    values = [header["value"] for header in response.headers_array if header["name"].lower() == "set-cookie"]
    cookies = [cookie for value in values for cookie in cookies_of(value, url, attempt.clock.wall())]
    if cookies:
        await attempt.tab.context.add_cookies(cookies)


def cookies_of(header: str, url: str, now: datetime) -> list[Any]:
    """One Set-Cookie header as Playwright's cookie; empty when it cannot be read."""
    try:
        parsed = SimpleCookie(header)
    except CookieError:
        return []
    return [_cookie(name, morsel, url, now) for name, morsel in parsed.items()]


def _cookie(name: str, morsel: Any, url: str, now: datetime) -> dict[str, Any]:
    cookie: dict[str, Any] = {
        "name": name,
        "value": morsel.value,
        "domain": f".{morsel['domain'].lstrip('.')}" if morsel["domain"] else domains.host_of(url),
        "path": morsel["path"] or "/",
        "httpOnly": bool(morsel["httponly"]),
        "secure": bool(morsel["secure"]),
    }
    expires = _expires(morsel, now)
    if expires is not None:
        cookie["expires"] = expires
    same_site = str(morsel["samesite"]).capitalize()
    if same_site in ("Lax", "Strict", "None"):
        cookie["sameSite"] = same_site
    return cookie


def _expires(morsel: Any, now: datetime) -> float | None:
    """Unix seconds; a time in the past, which deletes the cookie, is 1."""
    try:
        if morsel["max-age"]:
            seconds = int(morsel["max-age"])
            return now.timestamp() + seconds if seconds > 0 else 1.0
        return max(1.0, parsedate_to_datetime(morsel["expires"]).timestamp()) if morsel["expires"] else None
    except (TypeError, ValueError):
        return None


async def _body(response: APIResponse) -> Any:
    raw = await response.body()
    text = raw[:BODY_BYTES].decode("utf-8", "replace")
    if len(raw) > BODY_BYTES or "json" not in response.headers.get("content-type", ""):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _judge(attempt: Attempt, step: Api, url: str, response: APIResponse, details: Mapping[str, Any]) -> None:
    """Raise Failed for a status that is not the expected one."""
    if response.status == step.status:
        return
    now = attempt.clock.wall()
    failure = status_failure(response.status, url, response.headers, now, Effect.DONE)
    if failure is None and step.status is None:
        return
    message = f"HTTP {response.status} from {url}" + (f", expected {step.status}" if step.status else "")
    code = status_code(response.status) if response.status >= 400 else "HTTP_CLIENT_ERROR"
    shown = {"url": url, **details}
    raise Failed(
        Failure(code, message, details=shown, retry_after=failure.retry_after if failure else None, effect=Effect.DONE)
    )
