"""What Chromium sends again by itself is told of every step, on a server that counts what comes."""

from __future__ import annotations

from collections.abc import Iterator
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


def write(project: Project, name: str, site: BreakingSite, **keys: Any) -> None:
    step = {"act": "click", "selector": f"#{name.rpartition('-')[2]}", **keys}
    steps = [{"act": "open", "url": f"{site.url}/"}, step, {"act": "wait", "selector": "#done"}]
    project.task(name, steps=steps, success_criteria=["exists('#done')"])


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "seen"])
def test_a_post_that_the_browser_repeats_is_told(
    project: Project, sites_that_break: dict[str, BreakingSite], declared: bool
) -> None:
    for name, site in sites_that_break.items():
        write(project, name, site, **({"effect": "write"} if declared else {}))
    output = project.play("-n0", "--task-workers", "2")
    assert "tasks: 9: 9 completed" in output, output
    for name, site in sites_that_break.items():
        told = f"{name} step 1: The browser itself sent POST {site.url}/order again (1 time)"
        twice = not name.startswith("well")
        assert (site.orders == ["POST", "POST"]) == twice, name
        assert (told in output) == twice, (name, output)
    assert output.count("The browser itself sent") == 8, output
