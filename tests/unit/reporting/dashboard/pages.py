"""Pages to look at, and texts that try to be more than texts."""

from __future__ import annotations

from harness.reporting.comparisons import data_url
from harness.reporting.dashboard.build import dashboard
from harness.reporting.dashboard.evidence import FoundEvidence
from harness.reporting.dashboard.page import page
from harness.reporting.dashboard.view import EvidenceLinks, PageLink, PictureComparison, PictureView
from harness.reporting.history.record import RunRecord, RunSummary
from tests.unit.pictures import block
from tests.unit.reporting.history.runs import CODES, HEALED, execution, failed, record, run, several

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=2">',
    "</title></style><svg onload=window.hacked=3>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "\u202egpj.exe\x1b[31m\x00\u2028",
)
EVIL = "".join(HOSTILE)


def page_of(found: RunRecord, summaries: tuple[RunSummary, ...] = ()) -> str:
    return page(dashboard(found, summaries, {}, lambda _record: FoundEvidence()))


def page_with_pictures() -> str:
    """Of a task whose screenshot differs from its baseline; the name of the comparison is hostile."""
    names = ("expected", "actual", "diff")
    data = data_url(block(900, 300, 30_000))
    pictures = (PictureView(name=name, link=PageLink(label=name, href=f"{name}.png"), data=data) for name in names)
    shown = EvidenceLinks(folder="errors/T", comparisons=(PictureComparison(name=EVIL, pictures=tuple(pictures)),))
    found = run(parts=[execution(failed("T", "ASSERTION_FAILED"))])
    return page(dashboard(found, (), {}, lambda _record: FoundEvidence(shown)))


def red_page() -> str:
    """Of eleven tasks that failed for other reasons, each with a picture and two files."""
    found = [
        failed(f"T-RED-{n}", CODES[n % len(CODES)], at=n, suspect="site", message=f"{'x' * n} is wrong")
        for n in range(11)
    ]
    links = tuple(PageLink(label=name, href=f"errors/{name}") for name in ("error_report.json", "trace.zip"))
    shown = EvidenceLinks(folder="errors/T", links=links, picture=data_url(block(900, 300, 3_000)))
    made = run(parts=map(execution, found), happenings=())
    return page(dashboard(made, trend(), {}, lambda _record: FoundEvidence(shown)))


def trend(count: int = 12) -> tuple[RunSummary, ...]:
    """Of a project's last runs, the newest first."""
    return tuple(
        RunSummary(
            run=each.run,
            started=each.started,
            ending="finished",
            seconds=60 + number,
            passed=5,
            failed=number % 3,
            retries=number,
            recovery_rate=None if number == 4 else 0.1 * (number % 10),
        )
        for number, each in reversed(list(enumerate(several(count))))
    )


def hostile_run() -> RunRecord:
    """Every text of it is hostile."""
    texts = {
        "message": EVIL,
        "hint": EVIL,
        "source": EVIL,
        "feature": EVIL,
        "error_type": EVIL,
        "artifacts": "../../etc",
    }
    broken = failed("../../etc/passwd" + EVIL, "STEP_TIMEOUT", **texts, key="../../x")
    steps = tuple(each.model_copy(update={"target": EVIL, "act": EVIL}) for each in broken.steps)
    warning = {**HEALED, "original_selector": EVIL, "successful_fallback": EVIL, "role": EVIL, "name": EVIL}
    parts = [
        execution(broken.model_copy(update={"steps": steps}), worker=EVIL),
        execution(record("T-HEALED" + EVIL, warnings=(warning,))),
    ]
    told = [each.model_copy(update={"text": EVIL, "task_id": EVIL}) for each in run().happenings]
    about = {
        "project": EVIL,
        "commit": EVIL,
        "branch": EVIL,
        "arguments": (EVIL,),
        "environment": {EVIL: EVIL},
        "note": EVIL,
    }
    return run(parts=parts, happenings=told, ci={"name": EVIL, "buildUrl": "javascript:window.hacked=4"}, **about)
