"""Screenshots that are compared: the same each time, masked, and of the same size on every screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.engine.pixels import count_differing, size_of
from harness.recovery.failure import Failure
from harness.spec.context import ContextOptions
from harness.spec.steps import Assert
from tests.browser.site import PAGES
from tests.browser.stage import Stage

PAGES["/looks"] = """<!doctype html><title>Looks</title><style>body{margin:0;height:3000px}
#card{width:200px;height:100px;background:#28c;position:relative}
#dot{position:absolute;width:40px;height:40px;background:#fc0;animation:move .3s infinite alternate linear}
@keyframes move{to{transform:translateX(150px)}}
#now{position:absolute;left:0;top:60px;width:200px;height:20px;background:#fff}</style>
<div id=card><div id=dot></div><div id=now></div></div><input autofocus value=x>
<iframe id=inner srcdoc="<body style='margin:0'><p id=p style='height:30px;width:60px;margin:0;background:red'></p>">
</iframe><script>now.style.background = location.hash.slice(1) || 'white'</script>"""


async def look(session: Any, **keys: Any) -> bytes:
    found = await session.picture(Assert(screenshot="x.png", **keys), 2, 10)
    assert isinstance(found, bytes), found
    return found


async def test_a_moving_element_looks_the_same_each_time_at_any_scale(stage: Stage) -> None:
    session = await stage.at("/looks")
    phone = await stage.at("/looks", context=ContextOptions(device="iPhone 13"))
    first = await look(session, selector="#card")
    assert size_of(first) == size_of(await look(phone, selector="#card")) == (200, 100)
    assert await look(session, selector="#card") == first
    assert await look(session) == await look(session)
    assert session.platform in ("linux", "darwin", "win32")


async def test_what_is_masked_makes_no_difference(stage: Stage, tmp_path: Path) -> None:
    white, red = await stage.at("/looks"), await stage.at("/looks#red")

    async def differing(**keys: Any) -> int:
        (tmp_path / "a.png").write_bytes(await look(white, selector="#card", **keys))
        (tmp_path / "b.png").write_bytes(await look(red, selector="#card", **keys))
        return count_differing(tmp_path / "a.png", tmp_path / "b.png", tmp_path / "d.png", 0.2, 30)

    assert await differing() == 200 * 20
    assert await differing(mask=("#now", "#none")) == 0


@pytest.mark.thorough
async def test_the_whole_page_and_an_element_of_a_frame(stage: Stage) -> None:
    session = await stage.at("/looks")
    whole, part = size_of(await look(session, full_page=True)), size_of(await look(session))
    assert whole is not None
    assert part is not None
    assert whole[1] >= 3000 > part[1]
    assert size_of(await look(session, selector="#p", frame="#inner")) == (60, 30)
    assert size_of(await look(session, frame="#inner")) == (300, 30)


@pytest.mark.thorough
async def test_an_element_that_is_not_there_is_named(stage: Stage) -> None:
    session = await stage.at("/looks")
    found = await session.picture(Assert(screenshot="x.png", selector="#gone"), 0.3, 5)
    assert isinstance(found, Failure)
    assert (found.code, found.selector) == ("ELEMENT_NOT_FOUND", "#gone")
