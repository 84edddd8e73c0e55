"""The screenshot of a failure shows which element failed, and what covers it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from harness.browser.context import TINT
from harness.recovery import FULL
from tests.browser.stage import Stage, failed, passed

_TINTED = """async ([data, elements]) => {
  const image = new Image();
  await new Promise(done => { image.onload = done; image.src = 'data:image/png;base64,' + data; });
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const picture = canvas.getContext('2d');
  picture.drawImage(image, 0, 0);
  return elements.map(([x, y]) => {
    const [red, green] = picture.getImageData(x, y, 1, 1).data;
    return red - green > 50;
  });
}"""
_PAGE = """<title>Marks</title><style>body{margin:0}*{box-sizing:border-box}body>*{position:absolute;width:100px;
height:40px;left:20px}</style><button id=save style='top:20px' disabled>Save</button>
<button id=under style='top:100px'>Under</button><div style='top:90px;width:300px;height:60px;background:#ddd'>o</div>
<button id=submit-order style='top:200px'>Order</button>"""
_POINTS = {"save": (30, 30), "under": (30, 130), "over": (200, 120), "submit-order": (30, 210), "nothing": (600, 400)}
CASES = [
    ("#save", {"save"}),
    ("#under", {"under", "over"}),
    ("#submit-ordr", {"submit-order"}),
    ("#unlike-anything", set()),
]


@pytest.mark.parametrize(("selector", "marked"), CASES, ids=[selector for selector, _ in CASES])
@pytest.mark.sampled(2)
async def test_the_element_of_the_failed_step_is_tinted(stage: Stage, selector: str, marked: set[str]) -> None:
    session = await stage.at()
    await session.tab.page.set_content(_PAGE)
    await failed(session, {"act": "click", "selector": selector})
    folder = stage.folder / "evidence"
    folder.mkdir()
    evidence = await session.evidence(FULL, folder)
    assert {item.reason for item in evidence.items} == {""}
    assert await _tinted(stage, folder / "screenshot.png") == marked
    assert TINT not in (folder / "dom_snapshot.html").read_text("utf-8")


async def test_nothing_is_tinted_after_a_step_that_passed(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.set_content(_PAGE)
    await failed(session, {"act": "click", "selector": "#save"})
    await passed(session, {"act": "click", "selector": "#submit-order"})
    folder = stage.folder / "evidence"
    folder.mkdir()
    await passed(session, {"act": "screenshot", "screenshot_id": "own"})
    await session.evidence(FULL, folder)
    assert await _tinted(stage, folder / "screenshot.png") == set()


async def _tinted(stage: Stage, picture: Path) -> set[str]:
    viewer = await stage.session()
    asked = [base64.b64encode(picture.read_bytes()).decode(), list(_POINTS.values())]
    found: Any = await viewer.tab.page.evaluate(_TINTED, asked)
    return {name for name, tinted in zip(_POINTS, found, strict=True) if tinted}
