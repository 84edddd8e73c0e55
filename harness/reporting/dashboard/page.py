"""The page: one HTML file that contains everything it needs, loads nothing and runs only its own script."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.model.consumption import money_text, tokens_text
from harness.reporting.dashboard.evidence import IN_FULL
from harness.reporting.dashboard.timeline import amount, drawn, duration, shown, visible, with_code
from harness.reporting.dashboard.view import Dashboard, Occurrence, TaskRow
from harness.reporting.history.record import RunSummary
from harness.reporting.words import shortened

# Plots as static SVG (pygal): no script, and only the colours of the page's theme.

_Kind = Literal["StackedBar", "Bar", "Line"]
WIDTH, HEIGHT = 400, 180
"""Units of a drawing, which is as wide as its place: small enough to be readable on a phone."""
_LABELS, _LINE = 4, 54
"""The number of times written below a trend, and of characters of a name in a line of its own."""
_DROPPED = frozenset({"defs", "script", "style", "title", "desc"})
_EMPTY = frozenset({"titles", "plot text-overlay", "plot tooltip-overlay"})
_DIGITS = re.compile(r"(\d+\.\d)\d+")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_Series = Mapping[str, Sequence[float | None]]


def outcomes(trend: Sequence[RunSummary]) -> Markup:
    series = {
        "passed": [each.passed - each.expected for each in trend],
        "failed": [each.failed for each in trend],
        "skipped": [each.skipped for each in trend],
        "passed as declared": [each.expected for each in trend],
        "not judged": [each.not_judged for each in trend],
    }
    return _trend("StackedBar", "Tasks passed, failed and skipped in each run", trend, series, order_min=0)


def durations(trend: Sequence[RunSummary]) -> Markup:
    seconds = {"seconds": [round(each.seconds, 1) for each in trend]}
    return _trend("Bar", "Seconds that each run took", trend, seconds)


def costs(trend: Sequence[RunSummary]) -> Markup:
    """US dollars of each run; empty if no run has asked a model."""
    if not any(each.used.calls for each in trend):
        return Markup("")
    dollars = {"US dollars": [round(each.used.cost_usd, 6) for each in trend]}
    return _trend("Bar", "US dollars that the models of each run cost", trend, dollars, order_min=0)


def _trend(kind: _Kind, title: str, trend: Sequence[RunSummary], series: _Series, **options: Any) -> Markup:
    if not trend:
        return Markup("")
    labels, options["x_labels_major"] = _times([each.started for each in trend])
    return _draw_plot(kind, title, labels, series, show_minor_x_labels=False, margin_right=26, **options)


def _times(began: Sequence[datetime]) -> tuple[list[str], list[str]]:
    """A label for each run, and the labels that are written: every n-th, up to the last, which the page is about.

    pygal identifies labels by their text, so one that is not written has seconds: runs in the same minute then differ.
    """
    short = "%H:%M" if len({each.date() for each in began}) == 1 else "%m-%d %H:%M"
    every = -(-len(began) // _LABELS)
    written = [(len(began) - 1 - place) % every == 0 for place in range(len(began))]
    labels = [f"{each:{short if shown else '%m-%d %H:%M:%S'}}" for each, shown in zip(began, written, strict=True)]
    return labels, [label for label, shown in zip(labels, written, strict=True) if shown]


def _library() -> Any:
    """pygal, without the import finder that it installs: an old kind, about which failed imports warn."""
    import pygal

    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("pygal")]
    return pygal


def _draw_plot(kind: _Kind, title: str, labels: Sequence[str], series: _Series, **options: Any) -> Markup:
    pygal = _library()
    settings = {
        "width": WIDTH,
        "height": HEIGHT,
        "margin": 4,
        "show_legend": False,
        "truncate_label": -1,
        "include_x_axis": True,
        "max_scale": 5,
        "css": [],
        "js": [],
        "no_prefix": True,
        "disable_xml_declaration": True,
        "formatter": lambda value: f"{value:g}",
    }
    chart = getattr(pygal, kind)(**{**settings, **options})
    chart.x_labels = [visible(label) for label in labels]
    for name, values in series.items():
        chart.add(name, list(values))
    chart.add_xml_filter(lambda root: _plain(root, title))
    drawn = _DIGITS.sub(r"\1", chart.render(is_unicode=True))
    return Markup(_COMMENT.sub("", drawn))  # noqa: S704 - pygal has escaped each text


def _plain(root: Any, title: str) -> Any:
    """The drawing without script, style and tooltips; a value has a title, which browsers show at the pointer."""
    root.attrib.pop("id", None)
    root.attrib.update({"role": "img", "aria-label": title, "class": "plot-svg"})
    for parent in list(root.iter()):
        if isinstance(parent.tag, str):  # lxml, which pygal uses if it is installed, lists comments too
            _clean(parent)
    return root


def _clean(parent: Any) -> None:
    told = {each.get("class"): each.text or "" for each in parent if each.tag == "desc"}
    for child in list(parent):
        if child.tag in _DROPPED or child.get("class") in _EMPTY:
            parent.remove(child)
    if "value" in told:
        title = parent.makeelement("title", {})
        title.text = f"{told.get('x_label', '')}: {told['value']}"
        parent.insert(0, title)


PLACES, UNSTEADY, LANES, CAUSES = 6, 30, 40, 200
ROWS = 200
"""The number of tasks whose rows are in the page as such; the script makes those of the others when they are shown."""
"""The number of healed places, flaky tasks and lanes that are shown; others are counted."""


def drawn_bars(of: Occurrence, passed: bool) -> str:
    """The path of its attempts that passed, or of those that failed, in a drawing of 100 by 10."""
    whole = max([of.seconds, 0.01, *(each.end for each in of.bars)])
    found = (
        (100 * each.start / whole, 100 * (each.end - each.start) / whole) for each in of.bars if each.passed is passed
    )
    return "".join(f"M{min(start, 98):.0f} 0h{max(long, 2):.0f}v10h-{max(long, 2):.0f}z" for start, long in found)


def page(view: Dashboard) -> str:
    """The whole document."""
    trend = view.trend
    retries = {"retries": [each.retries for each in trend]}
    rates = {"%": [None if (rate := each.recovery_rate) is None else round(100 * rate, 1) for each in trend]}
    drawn = {
        "outcomes": outcomes(trend),
        "durations": durations(trend),
        "retries": _trend("Bar", "Retries in each run", trend, retries, order_min=0),
        "recovery_rates": _trend(
            "Line", "Recoveries that worked in each run, in percent", trend, rates, range=(0, 100)
        ),
        "costs": costs(trend),
    }
    return rendered("page.html", view=view, plots=drawn)


def rendered(template: str, *, more_style: str = "", **values: Any) -> str:
    """A page from a template that extends layout.html. `more_style`: CSS beside that of the dashboard."""
    script, style = asset("dashboard.js"), asset("dashboard.css") + more_style
    ours = {"script": Markup(script), "style": Markup(style)}  # noqa: S704
    return _environment().get_template(template).render(values, policy=_policy_of(script), **ours)


def cells_of(rows: Sequence[TaskRow], workers: Sequence[str]) -> Markup:
    """What the script makes rows of the table of, as tasks.html has them, in JSON that a script element may hold.

    `workers`: empty where the table has no column of them.
    """
    found = [
        {
            "texts": [
                visible(f"{row.task_id} {row.feature}".rstrip()),
                "as declared" if row.status == "expected" else row.status.replace("_", " "),
                "\u2013" if row.start is None else duration(row.start),
                duration(row.seconds),
                str(row.retries or ""),
                *([visible(row.worker)] if workers else []),
                visible(_note(row)),
            ],
            "status": row.status,
            "start": -1 if row.start is None else row.start,
            "seconds": row.seconds,
            "retried": row.retries > 0,
            "healed": row.healed,
            "cause": row.cause,
        }
        for row in rows
    ]
    return Markup(json.dumps(found, separators=(",", ":")).replace("<", "\\u003c"))  # noqa: S704 - no tag can begin


def _note(row: TaskRow) -> str:
    times = f"run {row.executions} times" if row.executions > 1 else ""
    return " ".join(filter(None, ("healed" if row.healed else "", times, row.note)))


def _policy_of(script: str) -> str:
    """The policy: nothing is loaded, nothing is sent, and only this script runs."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """A file beside the templates, as text."""
    return files("harness.reporting.dashboard").joinpath("templates", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    """What the templates are rendered with."""
    made = Environment(
        loader=PackageLoader("harness.reporting.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(duration=duration, amount=amount, argument=shlex.quote, with_code=with_code)
    made.filters.update(
        bars=drawn_bars,
        drawn=drawn,
        cells=cells_of,
        tokens=tokens_text,
        money=money_text,
        short=lambda text: shortened(text, _LINE),
    )
    made.globals.update(
        in_full=IN_FULL,
        most_places=PLACES,
        most_unsteady=UNSTEADY,
        most_lanes=LANES,
        most_causes=CAUSES,
        most_rows=ROWS,
    )
    return made
