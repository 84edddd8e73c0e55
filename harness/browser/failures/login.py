"""Recognizes a lost session: a login page is shown, so the missing element is not to blame (SESSION_LOST).

A page is the site's login page if it shows exactly one password field, which asks for the known password, and the form
is one in which the task has typed a password before, or calls itself a login (path, action, button, title), or declares
a user name beside the password. Forms that register, change or confirm something are not.

No session is lost if the task has typed no password on this host, went to the login page itself (a plain visit or a
logout), or is just filling in the form.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from playwright.async_api import Error as PlaywrightError

from harness.browser.exchanges import RequestRecord, document_of, hops_to, requests_before, requests_since
from harness.browser.failures.liveness import PROBE_SECONDS
from harness.browser.failures.scene import FailureContext
from harness.browser.isolated import script
from harness.browser.locating import locate
from harness.browser.network_errors import REFUSED_STATUSES
from harness.recovery.failure import Failure
from harness.spec.names import host_of

_FORM = script(
    "login_form",
    """
passwords => {
  const shown = e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && e.checkVisibility({visibilityProperty: true});
  };
  const text = value => (value || '').trim().replace(/\\s+/g, ' ').slice(0, 100);
  const visible = passwords.filter(shown);
  if (!visible.length) return null;
  const [field] = visible, form = field.form, scope = form || field.getRootNode();
  const typed = ['text', 'email', 'tel', 'number'];
  const others = [...scope.querySelectorAll('input')].filter(e => typed.includes(e.type) && shown(e));
  const sends = 'button:not([type=button]):not([type=reset]), input:is([type=submit], [type=image])';
  const button = scope.querySelector(sends) || scope.querySelector('button');
  const name = e => text(e.name || e.id);
  return {
    passwords: visible.length,
    filled: visible.some(e => e.value !== ''),
    purpose: field.getAttribute('autocomplete') || '',
    user_name: others.some(e => (e.getAttribute('autocomplete') || '').includes('username')),
    fields: [...others.map(name), name(field)].slice(0, 10),
    action: text(form?.getAttribute('action')),
    name: text(form ? `${form.id} ${form.getAttribute('name') || ''}` : ''),
    button: text(button?.innerText || button?.value || button?.getAttribute('aria-label')),
    title: text(document.title),
  };
}
""",
)
_IN_LOGIN_FORM = script(
    "in_login_form", "matches => matches.some(e => !!e.closest('form')?.querySelector('input[type=password]'))"
)
_LOGIN = re.compile(
    r"log[\s_-]?[io]n|sign[\s_-]?[io]n|\bauth(?!or)|\bsso\b|\bsessions?\b"
    r"|anmeld|einlogg|connexion|connecter|acceder|accedi|iniciar|entrar|inlogg|zaloguj|войти|登录|ログイン|로그인",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"regist|sign[\s_-]?up|creat|join|chang|updat|reset|forgot|recover|delet|remov|confirm|new[\s_-]?password|save",
    re.IGNORECASE,
)
_LOGOUT = re.compile(r"(log|sign)[\s_-]?(out|off)|abmeld", re.IGNORECASE)
_OTHER_PURPOSES = ("new-password", "one-time-code")


class Form(Struct, frozen=True):
    """The form around the page's first visible password field."""

    passwords: int
    filled: bool
    purpose: str
    """The password field's `autocomplete`."""
    user_name: bool
    """Whether a field is declared to take the user name."""
    fields: tuple[str, ...]
    action: str
    name: str
    button: str
    title: str

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about it for a report."""
        return {"title": self.title, "fields": list(self.fields), "action": self.action, "button": self.button}


async def session_lost(failure: Failure, scene: FailureContext) -> Failure | None:
    """SESSION_LOST in place of a missing element, if the page proves it. It asks the page as long as time allows."""
    if not is_element_missing(failure, scene) or host_of(scene.page.url) not in {
        host_of(f"//{entry}") for entry in scene.logins
    }:
        return None
    shown = document_of(scene.watch.exchanges, scene.page.url)
    if shown is not None and shown.wanted:
        return None
    form = await _form(scene, failure.code, max(PROBE_SECONDS, scene.look))
    if form is None or not is_login(form, scene.page.url, scene.logins):
        return None
    exchanges, url = scene.watch.exchanges, scene.page.url
    if is_unsent(form, exchanges, url) or was_requested(
        exchanges, url, again=scene.fills and page_of(url) in scene.logins
    ):
        return None
    needed = scene.frame if failure.code == "FRAME_NOT_FOUND" else scene.selector
    where = f"the site shows its login page ({scene.page.url}), but the step needed {needed}"
    found = {key: value for key, value in failure.details.items() if key != "similar"}  # of a page that was not meant
    details = {**found, "missing": needed, "instead_of": failure.code, "login": form.facts}
    return Failure("SESSION_LOST", f"{where}; the task had already entered its password there", scene.selector, details)


def is_element_missing(failure: Failure, scene: FailureContext) -> bool:
    """Return whether the step's element is missing or invisible."""
    if failure.code == "STEP_TIMEOUT":
        return scene.waits and failure.details.get("visible") == 0
    return failure.code in ("ELEMENT_NOT_FOUND", "FRAME_NOT_FOUND", "ELEMENT_HIDDEN")


async def _form(scene: FailureContext, code: str, seconds: float) -> Form | None:
    """The page's login form; None if there is none, if the step is about it, or if the page does not answer."""
    try:
        async with asyncio.timeout(seconds):
            answer = await _FORM.of_all(scene.page.locator("input[type=password]"))
            if answer is None or code == "FRAME_NOT_FOUND" or scene.selector is None:
                return form_of(answer)
            inside = await _IN_LOGIN_FORM.of_all(locate(scene.page, scene.selector, scene.frame))
    except (TimeoutError, PlaywrightError):
        return None
    return None if inside else form_of(answer)


def form_of(answer: Mapping[str, Any] | None) -> Form | None:
    """Read the page's answer. Pure."""
    return Form(**{**answer, "fields": tuple(answer["fields"])}) if answer else None


def is_login(form: Form, url: str, logins: Collection[str]) -> bool:
    """Return whether the form asks for a login, and nothing else. Pure."""
    own = f"{_path(url)} {_path(form.action)} {form.name} {form.button}"
    if form.passwords != 1 or form.purpose in _OTHER_PURPOSES or _OTHER.search(own):
        return False
    declared = form.purpose == "current-password" and form.user_name
    return declared or page_of(url) in logins or _LOGIN.search(f"{own} {form.title}") is not None


def names_login(path: str) -> bool:
    """Return whether a page of this path calls itself a login. Pure."""
    return _LOGIN.search(path) is not None and _LOGOUT.search(path) is None


def page_of(url: str) -> str:
    """Host and path: the key under which a page with a typed password is remembered."""
    return f"{host_of(url)}{_path(url)}"


def is_unsent(form: Form, exchanges: Sequence[RequestRecord], url: str) -> bool:
    """Return whether the task is just filling in the form. A filled form after a refusal by the site was sent. Pure."""
    asked = requests_since(exchanges, document_of(exchanges, url))
    return form.filled and not any(exchange.method != "GET" and _says_no(exchange, url) for exchange in asked)


def was_requested(exchanges: Sequence[RequestRecord], url: str, *, again: bool) -> bool:
    """Return whether the task itself requested this login page. Pure.

    It did not if the page came by a redirect, as the answer to a form, or after a request that was refused (401, 403).
    It did if a plain GET brought a page that is called a login, or `again`: the step types where a password was typed
    before.
    """
    hops = hops_to(exchanges, url)
    if any(_LOGOUT.search(_path(hop.url)) for hop in hops):
        return True
    if (
        len(hops) != 1
        or hops[0].method != "GET"
        or any(_says_no(one, url) for one in requests_before(exchanges, hops[0]))
    ):
        return False
    return again or _LOGIN.search(_path(url)) is not None


def _says_no(exchange: RequestRecord, url: str) -> bool:
    refused = exchange.status in REFUSED_STATUSES and not exchange.wanted
    return refused and host_of(exchange.url) == host_of(url)


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""
