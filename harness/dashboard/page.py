"""The page: one HTML file with all it needs inside, which loads nothing and runs no script but its own."""

from __future__ import annotations

import hashlib
import shlex
from base64 import b64encode
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.dashboard import plots
from harness.dashboard.text import amount, duration, shown, with_code
from harness.dashboard.view import Dashboard

IN_FULL, PLACES, UNSTEADY, LANES = 12, 6, 30, 40
"""How many failures of a cause, places of a healed selector, flaky tasks and lanes are shown; the rest is counted."""


def page(view: Dashboard) -> str:
    """The whole document."""
    script, style = _asset("dashboard.js"), _asset("dashboard.css")
    drawn = {
        "breakdown": plots.breakdown(view.breakdown),
        "recoveries": plots.recoveries(view.recoveries),
        "outcomes": plots.outcomes(view.trend),
        "durations": plots.durations(view.trend),
        "retries": plots.retries(view.trend),
        "recovery_rates": plots.recovery_rates(view.trend),
    }
    return (
        _environment()
        .get_template("page.html")
        .render(
            view=view,
            plots=drawn,
            script=Markup(script),  # noqa: S704 - ours
            style=Markup(style),  # noqa: S704 - ours
            policy=_policy(script),
        )
    )


def _policy(script: str) -> str:
    """Nothing is loaded, nothing is sent, and no script runs but this one."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _asset(name: str) -> str:
    return files("harness.dashboard").joinpath("templates", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=duration, amount=amount, argument=shlex.quote, with_code=with_code)
    environment.globals.update(in_full=IN_FULL, most_places=PLACES, most_unsteady=UNSTEADY, most_lanes=LANES)
    return environment
