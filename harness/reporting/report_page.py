"""What is done to a report after Allure built it: no calls to elsewhere, no script but its own, traces open offline."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from harness.reporting.trace_viewer import HERE_SCRIPT, VIEWER

POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic'; style-src 'self' 'unsafe-inline' data:; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; connect-src 'self' data: blob:; "
    "frame-src 'self' data: blob:; worker-src 'self' blob:; base-uri 'self'; form-action 'none'"
)
"""An attachment that Allure shows inside of the report is under the report's policy too: it does not know the nonce."""

_ANALYTICS = re.compile(
    r"<script[^>]*googletagmanager[^>]*>\s*</script>|<script>(?:(?!</script>).)*?gtag\('config'(?:(?!</script>).)*</script>",
    re.DOTALL,
)
_SCRIPT = re.compile(r"<script\b([^>]*>.*?</script>)", re.DOTALL | re.IGNORECASE)
_SITE = "https://trace.playwright.dev"
_LOCAL = f'new URL("{VIEWER}/index.html",location.href.split("#")[0]).href'
_TRACE_SITE = (
    (re.compile(rf'="{re.escape(_SITE)}",(\w+)=`\$\{{\w+\}}/`'), rf"=location.origin,\1={_LOCAL}"),  # Allure 3
    (re.compile(rf"=([\"'`]){re.escape(_SITE)}/\1"), f"={_LOCAL}"),  # Allure 2: the page, and its origin
    (re.compile(rf"=([\"'`]){re.escape(_SITE)}\1"), "=location.origin"),
)
_OPTIONAL = {"metrics.json": '{"current":[],"history":[]}'}
"""Files that Allure 3 asks for and does not write: each would be an error in the browser's console."""


def finish_report(report: Path, *, viewer: bool) -> None:
    """Rewrite what was built. `viewer`: Playwright's stands beside it, and is to be used in the place of its site."""
    index = report / "index.html"
    page = _ANALYTICS.sub("", index.read_text("utf-8"))
    if viewer:
        page = page.replace("<head>", f"<head>\n{HERE_SCRIPT}", 1)
        _use_viewer(report)
    index.write_text(guarded(page), "utf-8")
    for name, text in _OPTIONAL.items():
        if (report / "widgets" / "nav.json").is_file() and not (report / "widgets" / name).exists():
            (report / "widgets" / name).write_text(text, "utf-8")


def guarded(page: str) -> str:
    """The page with a policy that lets only its own scripts run, and loads nothing from elsewhere."""
    nonce = secrets.token_urlsafe(18)
    page = _SCRIPT.sub(rf'<script nonce="{nonce}"\1', page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(nonce=nonce)}">'
    return page.replace("<head>", f"<head>\n{meta}", 1)


def _use_viewer(report: Path) -> None:
    """Allure's own button for traces opens a site on the internet; here it opens the viewer beside the report."""
    for script in (*report.glob("*.js"), *report.glob("assets/*.js")):
        text = script.read_text("utf-8")
        if _SITE in text:
            for pattern, local in _TRACE_SITE:
                text = pattern.sub(local, text)
            script.write_text(text, "utf-8")
