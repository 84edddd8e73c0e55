"""What `harness validate` calls no selector is none to the browser either."""

from __future__ import annotations

from typing import Any

from tests.browser.stage import Stage, failed
from tests.unit.spec.selectors import MALFORMED


def test_selectors_that_are_told_of_before_a_run_are_refused_in_it(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        codes = {
            selector: (await failed(session, {"act": "click", "selector": selector})).code for selector in MALFORMED
        }
        assert codes == dict.fromkeys(MALFORMED, "INVALID_INPUT")

    run(body())
