"""`api`: an HTTP request with the page's cookies, to the host's real port."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from playwright.async_api import APIResponse
from playwright.async_api import Error as PlaywrightError

from harness.browser import domains
from harness.browser.acts.attempt import ActContext
from harness.browser.contents import MOST, document_in
from harness.browser.exchanges import ApiSender
from harness.browser.network_errors import api_failure, status_code, status_failure
from harness.browser.route_answers import NoAnswerError, RouteAnswer
from harness.model.record import RESULT
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, routed_failure
from harness.spec.names import host_of, origin_of
from harness.spec.step_keys import any_of, as_statuses
from harness.spec.steps import Api
from harness.task_secrets import hidden, is_session_value, learn, learn_named
from harness.values import replace

if TYPE_CHECKING:
    from harness.browser.routing import Answering

_BODY_BYTES = 10_000
_KEPT_BYTES = 1_000_000
_REDIRECTS = 10
_OWN = ("authorization", "cookie", "host", "proxy-authorization")
"""Headers that are meant for one origin only."""
_OF_BODY = ("content-type", "content-length", "content-encoding", "content-language", "transfer-encoding")


class Ask(Struct, frozen=True):
    """The request to one URL. Header names are in lower case."""

    method: str
    headers: Mapping[str, str]
    body: str | None = None

    @classmethod
    def of(cls, step: Api) -> Ask:
        """Make the request of a step; a body that is not a text is sent as JSON."""
        headers = {name.lower(): value for name, value in step.headers.items()}
        if step.value is None or isinstance(step.value, str):
            return cls(step.method, headers, step.value)
        return cls(step.method, {"content-type": "application/json", **headers}, json.dumps(step.value))

    def after(self, status: int, *, same_origin: bool) -> Ask:
        """The request after a redirect, as browsers make it: no POST is repeated unasked, secrets keep their origin."""
        headers = {name: value for name, value in self.headers.items() if same_origin or name not in _OWN}
        if (status in (301, 302) and self.method == "POST") or (status == 303 and self.method not in ("GET", "HEAD")):
            return Ask("GET", {name: value for name, value in headers.items() if name not in _OF_BODY})
        return replace(self, headers=headers)


class RoutedResponse:
    """The answer of a route, in the form of Playwright's."""

    def __init__(self, answer: RouteAnswer, *, patched: bool = False) -> None:
        self.patched = patched
        """Whether it is the answer of a site, changed."""
        self.status = answer.status
        pairs = [(name, each) for name, value in answer.headers.items() for each in value.split("\n")]
        self.headers_array: list[dict[str, str]] = [{"name": name, "value": each} for name, each in pairs]
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self._body = answer.body

    async def body(self) -> bytes:
        """The whole body."""
        return self._body


_Response = APIResponse | RoutedResponse


def _decide(attempt: ActContext, url: str, ask: Ask) -> Answering | None:
    """What the task's routes do about the request; None: it passes."""
    routing = attempt.request.routing
    return routing.decide(ask.method, url, ask.body.encode() if ask.body is not None else None) if routing else None


async def _patched(
    attempt: ActContext, decision: Answering, url: str, ask: Ask, response: APIResponse
) -> RoutedResponse:
    """The answer of a site, changed. Raises Failed if it cannot be changed as declared."""
    routing, patch = attempt.request.routing, decision.patch
    assert routing is not None
    assert patch is not None
    headers: dict[str, str] = {}
    for each in response.headers_array:
        name = each["name"]
        headers[name] = f"{headers[name]}\n{each['value']}" if name in headers else each["value"]
    await routing.wait(decision.delay)
    try:
        answer = patch.apply(RouteAnswer(response.status, headers, await response.body()))
    except NoAnswerError as error:
        routing.patched(decision, ask.method, url, None, str(error))
        problem = routing.take_problem() or Failure("ROUTE_UNANSWERED", str(error))
        raise Failed(replace(problem, effect=Effect.DONE)) from error
    routing.patched(decision, ask.method, url, answer)
    return RoutedResponse(answer, patched=True)


async def _routed(attempt: ActContext, decision: Answering | None, url: str) -> RoutedResponse | None:
    """The answer of the task's routes; None if the site is to answer. Raises Failed if a route cannot answer."""
    routing = attempt.request.routing
    if routing is None or decision is None or decision.patch is not None:
        return None
    await routing.wait(decision.delay)
    if decision.answer is None:
        raise Failed(routing.take_problem() or Failure("ROUTE_UNANSWERED", f"no route could answer {url}"))
    return RoutedResponse(decision.answer)


async def api(attempt: ActContext, step: Api) -> Mapping[str, Any]:
    url = domains.resolve(step.url, attempt.request.base_url)
    async with _sender(attempt) as sender:
        url, response = await _follow(attempt, step, sender, url)
        raw = await response.body()
        sender.kept += len(raw)
    details = {"status": response.status, "body": _body(response, raw)}
    if step.reads_answer and len(raw) <= MOST:
        details[RESULT] = document_in(raw, response.headers.get("content-type", ""))
    _judge(attempt, step, url, response, details)
    return details


@asynccontextmanager
async def _sender(attempt: ActContext) -> AsyncIterator[ApiSender]:
    """That of the step before, if it has no cookies of its own, and keeps little. After an error none is kept."""
    tab = attempt.tab
    sender, tab.sender = tab.sender, None
    if sender is None:
        insecure = attempt.request.context.ignore_https_errors
        asking = attempt.playwright.request.new_context(user_agent=tab.user_agent, ignore_https_errors=insecure)
        sender = ApiSender(await asking)
    try:
        yield sender
        if not sender.spent and sender.kept <= _KEPT_BYTES:
            tab.sender = sender
    finally:
        if tab.sender is None:
            await sender.context.dispose()


async def _follow(attempt: ActContext, step: Api, sender: ApiSender, url: str) -> tuple[str, _Response]:
    """Send the request, and follow redirects one by one: each maps its own host and must be in the allowed domains."""
    ask = Ask.of(step)
    for _ in range(_REDIRECTS):
        decision = _decide(attempt, url, ask)
        response: _Response | None = await _routed(attempt, decision, url)
        if response is None:  # what a route answers is sent to no host
            domains.check(url, attempt.request.domains)
            if (gate := attempt.request.gate) is not None and not gate.lets_pass(ask.method, url):
                held = f"the step would have sent {ask.method} {url}, which the task does not declare: it was held back"
                raise Failed(Failure("POLICY_WRITE", held, details={"method": ask.method, "url": url}))
            response = await _send_authorized(attempt, sender, url, ask)
            if decision is not None:
                response = await _patched(attempt, decision, url, ask, response)
        await _store_cookies(attempt, url, response)
        location = response.headers.get("location")
        if not 300 <= response.status < 400 or not location or response.status in as_statuses(step.status):
            return url, response
        before, url = url, _target(location, url)
        ask = ask.after(response.status, same_origin=urlsplit(before)[:2] == urlsplit(url)[:2])
    message = f"{step.url} redirects in a circle"
    raise Failed(Failure("NET_TOO_MANY_REDIRECTS", message, details={"url": url}, effect=Effect.POSSIBLE))


def _target(location: str, url: str) -> str:
    """The target of a redirect; raises Failed if it cannot be opened, which is the site's fault."""
    try:
        return domains.resolve(location, url)
    except Failed as error:
        message = f"{url} redirects to {location}, which cannot be opened"
        details = {"url": url, "location": location}
        raise Failed(Failure("NET_BLOCKED", message, details=details, effect=Effect.POSSIBLE)) from error


async def _send_authorized(attempt: ActContext, sender: ApiSender, url: str, ask: Ask) -> APIResponse:
    """Send a request with the task's `http_credentials`: from the start, or again after an answer 401."""
    credentials = attempt.request.context.http_credentials
    if credentials is None or "authorization" in ask.headers or credentials.origin not in (None, origin_of(url)):
        return await _send(attempt, sender, url, ask)
    pair = f"{credentials.username}:{credentials.password}".encode()
    told = replace(ask, headers={**ask.headers, "authorization": f"Basic {b64encode(pair).decode()}"})
    if credentials.send == "always":
        return await _send(attempt, sender, url, told)
    response = await _send(attempt, sender, url, ask)
    return response if response.status != 401 else await _send(attempt, sender, url, told)


async def _send(attempt: ActContext, sender: ApiSender, url: str, ask: Ask) -> APIResponse:
    target, host = domains.mapped(url, attempt.request.hosts)
    try:
        extra = {name.lower(): value for name, value in (attempt.request.options.extra_headers or {}).items()}
        told = attempt.request.mark.headers(attempt.request.world)
        cookies = "; ".join(f"{each['name']}={each['value']}" for each in await attempt.tab.context.cookies(url))
        own = {**({"cookie": cookies} if cookies else {}), **({"host": host} if host else {})}
        headers = {**extra, **told, **own, **ask.headers}
        async with asyncio.timeout(attempt.left()):  # Playwright's own comes too late on a busy machine
            response = await sender.context.fetch(
                target, method=ask.method, headers=headers, data=ask.body, max_redirects=0, timeout=attempt.ms()
            )
    except (PlaywrightError, TimeoutError) as error:
        late = f"fetch: Timeout {1000 * attempt.scene.within:.0f}ms exceeded."
        text = error.message if isinstance(error, PlaywrightError) else late
        if attempt.request.on_request_failed is not None:
            attempt.request.on_request_failed(url, text)
        raise Failed(api_failure(text.splitlines()[0].partition(": ")[2], url)) from error
    sender.spent = sender.spent or "set-cookie" in response.headers
    return response


async def _store_cookies(attempt: ActContext, url: str, response: _Response) -> None:
    values = [header["value"] for header in response.headers_array if header["name"].lower() == "set-cookie"]
    cookies = [cookie for value in values for cookie in cookies_of(value, url, attempt.clock.wall())]
    learn(*(cookie["value"] for cookie in cookies if is_session_value(cookie["value"])))
    if cookies:
        await attempt.tab.context.add_cookies(cookies)


def cookies_of(header: str, url: str, now: datetime) -> list[Any]:
    """Convert a Set-Cookie header to Playwright's cookies; empty if it cannot be parsed."""
    try:
        parsed = SimpleCookie(header)
    except CookieError:
        return []
    return [_parsed(name, morsel, url, now) for name, morsel in parsed.items()]


def _parsed(name: str, morsel: Any, url: str, now: datetime) -> dict[str, Any]:
    cookie: dict[str, Any] = {
        "name": name,
        "value": morsel.value,
        "domain": f".{morsel['domain'].lstrip('.')}" if morsel["domain"] else host_of(url),
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
    """The expiry in Unix seconds; a time in the past, which deletes the cookie, becomes 1."""
    try:
        if morsel["max-age"]:
            seconds = int(morsel["max-age"])
            return now.timestamp() + seconds if seconds > 0 else 1.0
        return max(1.0, parsedate_to_datetime(morsel["expires"]).timestamp()) if morsel["expires"] else None
    except (TypeError, ValueError):
        return None


def _body(response: _Response, raw: bytes) -> Any:
    """The body as reports have it: a document, or the beginning of a text without secrets."""
    text = raw.decode("utf-8", "replace")
    if "json" in response.headers.get("content-type", ""):
        with suppress(ValueError, RecursionError):
            document = json.loads(text)
            learn_named(document)
            if len(raw) <= _BODY_BYTES:
                return document
    return text if len(raw) <= _BODY_BYTES else hidden(text)[:_BODY_BYTES]


def _judge(attempt: ActContext, step: Api, url: str, response: _Response, details: Mapping[str, Any]) -> None:
    """Raise Failed for an unexpected status."""
    wanted = as_statuses(step.status)
    if response.status in wanted:
        return
    now = attempt.clock.wall()
    routed = isinstance(response, RoutedResponse)
    patched = isinstance(response, RoutedResponse) and response.patched
    effect = Effect.NONE if routed and not patched else Effect.DONE  # a route is no site
    failure = status_failure(response.status, url, response.headers, now, effect)
    if failure is None and not wanted:
        return
    message = f"HTTP {response.status} from {url}" + (f", expected {any_of(wanted)}" if wanted else "")
    code = status_code(response.status) if response.status >= 400 else "HTTP_UNEXPECTED_STATUS"
    shown = {"url": url, **details}
    after = failure.retry_after if failure else None
    found = Failure(code, message, details=shown, retry_after=after, effect=effect)
    raise Failed(routed_failure(found, patched=patched) if routed else found)
