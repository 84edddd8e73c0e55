"""`set`: changes what the browser emulates, in the context that is open and in those that may replace it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.browser.acts.attempt import ActContext
from harness.browser.emulation import PageClock
from harness.browser.offline import go_offline, go_online
from harness.recovery.failure import Failed, Failure
from harness.spec.context import ContextOptions
from harness.spec.page_steps import ClockChange, Set, moment_of, seconds_of

_DECLARED = "declared"
"""The reason to be offline that the task itself gives."""


async def change(attempt: ActContext, step: Set) -> Mapping[str, Any]:
    """Change the clock, which may be refused, then the rest."""
    clock = await _turn(attempt, step.clock) if step.clock is not None else None
    attempt.request.emulation.add(step.options, clock)
    await _emulate(attempt, step.options)
    return {} if clock is None else {"clock": clock.now(attempt.clock).isoformat(timespec="seconds")}


async def _emulate(attempt: ActContext, options: ContextOptions) -> None:
    context, request = attempt.tab.context, attempt.request
    whole = request.emulated(attempt.playwright)
    for page in context.pages:
        await request.emulation.apply_to(page)
    if options.geolocation is not None:
        await context.set_geolocation(whole["geolocation"])
    if options.permissions is not None or options.geolocation is not None:
        await context.clear_permissions()
        await context.grant_permissions(whole.get("permissions") or [])
    if options.extra_headers is not None:
        await context.set_extra_http_headers({**options.extra_headers, **request.mark.headers(request.world)})
    if options.offline is not None:  # the last: what goes online sends at once, with all that was set
        await (go_offline if options.offline else go_online)(context, _DECLARED)


async def _turn(attempt: ActContext, change: ClockChange) -> PageClock:
    """Change the clock of the pages. Another attempt at the step goes to the same moment, not on by the same time."""
    clock = attempt.tab.context.clock
    known = attempt.request.emulation.changes.clock
    runs = known is None or known.runs
    if change.resume:
        if runs:
            raise Failed(Failure("INVALID_INPUT", "the clock is not paused: there is nothing to resume"))
        await clock.resume()
        runs = True
    elif change.pause_at is not None:
        moment = moment_of(change.pause_at)
        now = await _shown(attempt)
        if moment.timestamp() < now:
            shows = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
            message = f"the clock cannot go back to {change.pause_at}: it shows {shows}"
            advice = "Start the clock earlier with `time:` of the task, or pause it at a later point in time."
            raise Failed(Failure("INVALID_INPUT", message, advice=advice))
        await clock.pause_at(moment)
        runs = False
    else:
        aim, now = attempt.tab.aim, await _shown(attempt)
        if not isinstance(aim, float):
            aim = attempt.tab.aim = now + seconds_of(change.fast_forward or 0)
        if aim > now:
            await clock.fast_forward(round(1000 * (aim - now)))
    return PageClock(await _shown(attempt), attempt.clock.now(), runs)


async def _shown(attempt: ActContext) -> float:
    """The time that the page shows, in seconds since 1970."""
    return float(await attempt.page.evaluate("Date.now()")) / 1000
