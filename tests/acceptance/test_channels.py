"""What a page sends otherwise than by its own request is not sent twice by going back to a checkpoint."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import Project
from tests.browser.channels_site import ChannelsSite
from tests.conftest import FULL

PAGES = {"shared": "shared", "shared-socket": "order", "broadcast": "woken", "parting": "parting"}
"""Page -> the order that it sends."""
if not FULL:  # tests/browser/test_channels.py sees what each of them sends
    del PAGES["shared-socket"], PAGES["broadcast"]


@pytest.fixture
def site() -> Iterator[ChannelsSite]:
    loop, site = asyncio.new_event_loop(), ChannelsSite()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(site.start(), loop).result(10)
    yield site
    asyncio.run_coroutine_threadsafe(site.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def test_going_back_over_a_click_orders_once_whatever_the_page_sends_by(project: Project, site: ChannelsSite) -> None:
    """It takes some seconds: each of the tasks goes on until its last step has failed."""
    (project.path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")  # nothing that could be restored
    home = f"http://127.0.0.1:{site.port}"
    for page in PAGES:
        project.task(
            page,
            checkpoints=[0],
            error_recovery={"on_timeout": "retry_from_checkpoint"},
            steps=[
                {"act": "open", "url": f"{home}/{page}"},
                {"act": "click", "selector": "#b"},
                {"act": "wait", "value": 0.5},
                {"act": "open", "url": f"{home}/plain"},
                {"act": "wait", "selector": "#never", "timeout": 0.5},
            ],
        )
    run = project.run("--task-workers", "2")
    run.assert_outcomes(failed=len(PAGES))
    assert Counter(site.orders) == Counter(PAGES.values())
    for page in PAGES:
        assert "step 1 is a write without `done_when`" in project.report(page)["error_message"]
