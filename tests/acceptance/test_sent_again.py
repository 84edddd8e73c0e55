"""What Chromium sends again by itself is told of every step, on a server that counts what comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.acceptance.breaking_site import BreakingSite
from tests.acceptance.conftest import Project

WAYS = ("fin", "rst", "408", "late-fin")


@pytest.fixture
def sites_that_break() -> Iterator[dict[str, BreakingSite]]:
    """Task -> its site, which breaks off the first answer."""
    made = {f"{way}-{how}": BreakingSite(way, "ok") for way in WAYS for how in ("form", "fetch")}
    made["well-form"] = BreakingSite("ok")
    yield made
    for site in made.values():
        site.close()


def write(project: Project, name: str, site: BreakingSite, *, own_connection: bool = False, **keys: Any) -> None:
    step = {"act": "click", "selector": f"#{name.rpartition('-')[2]}", **keys}
    more = {"browser": {"extra_headers": {"Connection": "close"}}} if own_connection else {}
    steps = [{"act": "open", "url": f"{site.url}/"}, step, {"act": "wait", "selector": "#done"}]
    limits = {"timeout": 180, "step_timeout": 60}  # for a machine that does much else
    project.task(name, steps=steps, success_criteria=["exists('#done')"], **limits, **more)


@pytest.mark.parametrize("declared", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["declared", "seen"])
def test_a_post_that_the_browser_repeats_is_told(
    project: Project, sites_that_break: dict[str, BreakingSite], declared: bool
) -> None:
    for name, site in sites_that_break.items():
        write(project, name, site, **({"effect": "write"} if declared else {}))
    with closing(BreakingSite("fin", "ok")) as alone:
        write(project, "own-form", alone, own_connection=True, effect="write")
        output = project.play("-n0", "--task-workers", "2")
        assert alone.orders == ["POST"], "on a connection of its own it is sent once"
    assert "tasks: 10: 9 completed" in output, output
    assert project.report("own-form")["code"] == "OUTCOME_UNKNOWN"
    for name, site in sites_that_break.items():
        told = f"{name} step 1: The browser itself sent POST {site.url}/order again (1 time)"
        twice = not name.startswith("well")
        assert (site.orders == ["POST", "POST"]) == twice, name
        assert (told in output) == twice, (name, output)
    assert output.count("The browser itself sent") == 8, output


def test_a_file_that_breaks_off_is_asked_for_once_by_a_download_and_told_after_a_click(project: Project) -> None:
    """Chromium would ask for it five times more. A body that ends too soon does not say so itself."""
    download, click = {"act": "download", "selector": "#form"}, {"act": "click", "selector": "#form"}
    steps = {
        "declared": ("broken-file", {**download, "effect": "write"}),
        "seen": ("broken-chunks", download),
        "stalled": ("stalled-file", {**download, "effect": "write", "timeout": 10}),
        "whole": ("file", {**download, "effect": "write"}),
        "clicked": ("broken-file", click),
    }
    with ExitStack() as stack:
        made = {name: stack.enter_context(closing(BreakingSite(*[way] * 6))) for name, (way, _) in steps.items()}
        for name, (_, step) in steps.items():
            after = [{"act": "wait", "value": 3}] if name == "clicked" else []
            opened = {"act": "open", "url": f"{made[name].url}/"}
            project.task(name, steps=[opened, step, *after], timeout=180, step_timeout=60)
        output = project.play("-n0")
        again = f"clicked step 1: The browser itself asked for {made['clicked'].url}/order again (5 times)"
        assert (output.count("The browser itself"), again in output) == (1, True), output
        assert made["clicked"].orders == ["POST", *["GET"] * 5]
        assert all(made[name].orders == ["POST"] for name in ("declared", "seen", "stalled", "whole"))
    assert "tasks: 5: 2 completed" in output, output
    for name, code, why in (
        ("declared", "OUTCOME_UNKNOWN", "broke off (ERR_CONTENT_LENGTH_MISMATCH)"),
        ("seen", "OUTCOME_UNKNOWN", "broke off (ERR_INCOMPLETE_CHUNKED_ENCODING)"),
        ("stalled", "STEP_TIMEOUT", "/order began, but did not end in time"),
    ):
        report = project.report(name)
        assert (report["code"], why in str(report)) == (code, True), report
