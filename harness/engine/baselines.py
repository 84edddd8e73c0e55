"""An `assert` that compares with a baseline, a file beside the task: an ARIA snapshot, or a screenshot."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.criteria import STUCK_SECONDS, difference, pauses
from harness.engine import pixels
from harness.engine.judge import ASSERTION, AssertionJudge
from harness.engine.run import Run
from harness.recovery.catalog import ErrorType, Family
from harness.recovery.failure import Assertion, Failure, Outcome, Passed
from harness.resilience.replaced import write_whole
from harness.spec.names import ABSENT, file_problem, how_many, slug
from harness.spec.pictures import ACTUAL, COMPARISONS, DIFF, EXPECTED, LOOKS_LIKE, baseline_name
from harness.spec.steps import Assert

_UPDATE = "`--task-update-baselines`"
_RENEW = f"{_UPDATE} writes the file anew."
_POLL = 0.1
"""Seconds between two screenshots of a page that gave none; a call has at least as many."""
_FIRST_RUN = f"Run the task once with {_UPDATE}, and look at what it has written."


def _write_baseline(file: Path, content: bytes) -> bool:
    """Write a baseline. Returns whether it has changed."""
    if file.is_file() and file.read_bytes() == content:
        return False
    write_whole(file, content)
    return True


def _file_of(run: Run, name: str) -> Path | Failure:
    """The file of a baseline, which need not exist; a Failure for one outside of the task's folder."""
    problem = file_problem(name, run.plan.folder)
    if problem is not None and problem != ABSENT:
        return Failure("INVALID_INPUT", f"the baseline {name} is no file of the task's folder: {problem}")
    return run.plan.folder / name


# ARIA snapshots.


async def compare_aria(judge: AssertionJudge, step: Assert, expected: str) -> Outcome:
    """Compare the element's ARIA snapshot with that of the step, or of its file, which may be written instead."""
    run, selector, within = judge.run, step.selector or "body", max(_POLL, judge.left)
    session = run.seat
    file = _file_of(run, step.baseline) if step.baseline else None
    if isinstance(file, Failure):
        return file
    if file is not None and run.plan.update_baselines:
        found = await session.aria(selector, step.frame, within)
        if isinstance(found, Failure):
            return found
        changed = await asyncio.to_thread(_write_baseline, file, f"{found}\n".encode())
        return Passed({"baseline": step.baseline or "", "written": changed})
    if file is not None:
        if not file.is_file():
            message = f"Assertion failed: there is no baseline {step.baseline} beside the task"
            return Failure(ASSERTION, message, selector, advice=_FIRST_RUN)
        expected = await asyncio.to_thread(file.read_text, "utf-8")
    actual = await session.matches_aria(selector, step.frame, expected, judge.expect, within)
    if actual is None or isinstance(actual, Failure):
        return actual or Passed()
    message = f"Assertion failed: the ARIA snapshot of {selector} differs"
    wanted = expected.strip("\n")
    assertion = Assertion(step.describe(), wanted, actual, difference(wanted, actual), message)
    advice = f"If the page is right, {_RENEW}" if file else ""
    return Failure(ASSERTION, message, selector, assertion=assertion, advice=advice)


# Screenshots.

_MOVING = "two screenshots in a row were never equal, so `mask` what moves"
_SETTLE = 5.0
"""Seconds within which two screenshots in a row must be equal."""


class PictureDifference(Struct, frozen=True):
    """How a screenshot differs from its baseline. Sizes are width and height in pixels."""

    pixels: int
    """How many differ; 0 also for pictures of different sizes, whose pixels are not compared."""
    expected: tuple[int, int]
    actual: tuple[int, int]

    @property
    def ratio(self) -> float:
        """The share of the pixels that differ."""
        return self.pixels / max(1, self.actual[0] * self.actual[1])

    def allowed_by(self, step: Assert) -> bool:
        """Return whether the tolerance of the step allows it; it never allows another size."""
        return self.expected == self.actual and self.pixels <= allowed_pixels(step, self.actual)

    def told(self, step: Assert) -> str:
        """What differs, in one line."""
        if self.expected != self.actual:
            return f"the sizes differ: {_shown(self.actual)}, not {_shown(self.expected)}"
        number = f"{how_many(self.pixels, 'pixel')} of {self.actual[0] * self.actual[1]}"
        return f"{number} differ (ratio {self.ratio:.2g}), {allowed_pixels(step, self.actual)} allowed"


def _shown(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def allowed_pixels(step: Assert, size: tuple[int, int]) -> int:
    """How many pixels of a picture of this size may differ: the smaller of the two limits, or none. Pure."""
    share = None if step.max_diff_pixel_ratio is None else int(step.max_diff_pixel_ratio * size[0] * size[1])
    return min((each for each in (step.max_diff_pixels, share) if each is not None), default=0)


def _measured(baseline: Path, shot: bytes, folder: Path, threshold: float, within: float) -> PictureDifference:
    """Compare a screenshot with the file of its baseline; `folder` gets both, and a picture of what differs.

    Raises ValueError for a baseline that is no PNG, TimeoutError after `within` seconds.
    """
    wanted = baseline.read_bytes()
    expected, actual = pixels.size_of(wanted), pixels.size_of(shot)
    if expected is None or actual is None:
        raise ValueError("it is not a PNG")
    if wanted == shot:
        return PictureDifference(0, expected, actual)
    before, after, diff = (folder / name for name in (EXPECTED, ACTUAL, DIFF))
    before.write_bytes(wanted)
    after.write_bytes(shot)
    diff.unlink(missing_ok=True)
    count = pixels.count_differing(before, after, diff, threshold, within) if expected == actual else 0
    return PictureDifference(count, expected, actual)


class _Comparison:
    """The comparison of one step: its baseline, and the folder for what a failure shows."""

    def __init__(self, judge: AssertionJudge, step: Assert, name: str, file: Path, folder: Path) -> None:
        self.judge, self.step, self.name, self.file, self.folder = judge, step, name, file, folder
        self.run = judge.run
        self._last: tuple[bytes, PictureDifference] | None = None

    def left(self) -> float:
        """Seconds that are left; at least a moment, since a call without time would tell nothing."""
        return max(_POLL, self.judge.left)

    def within(self, seconds: float) -> float:
        """The moment after so many seconds, or the end of the attempt if that comes first."""
        now = self.run.ports.clock.now()
        return now + self.judge.until.clip(seconds, now)

    async def shot(self, patience: float) -> bytes | Failure:
        return await self.run.seat.picture(self.step, min(patience, self.left()), self.left())

    async def another(self, end: float, seen: Failure) -> bytes | Failure:
        """Another screenshot, in a wait until `end`. A page that gives none until then is judged by what was `seen`."""
        clock, session = self.run.ports.clock, self.run.seat
        while True:
            began = clock.now()
            within = min(self.left(), max(_SETTLE, end - began))
            shot = await session.picture(self.step, min(_SETTLE, within), within)
            if isinstance(shot, bytes) or not (shot.family is Family.ELEMENT or shot.type == ErrorType.TIMEOUT_STEP):
                return shot
            if shot.family is Family.BROWSER and clock.now() - began >= STUCK_SECONDS:
                return shot
            if clock.now() >= end:
                return seen
            await clock.sleep(_POLL)

    async def difference(self, shot: bytes) -> PictureDifference:
        """Compare a screenshot with the baseline. Raises ValueError, OSError, TimeoutError."""
        if self._last is None or self._last[0] != shot:
            self.folder.mkdir(parents=True, exist_ok=True)
            told = await asyncio.to_thread(_measured, self.file, shot, self.folder, self.step.threshold, self.left())
            self._last = shot, told
        return self._last[1]

    def failure(
        self, message: str, advice: str, told: PictureDifference | None = None, *, plain: bool = True
    ) -> Failure:
        """The failure of the assertion. `plain`: the message has only what `told` says."""
        details: dict[str, Any] = {"baseline": self.name, "pictures": f"files/{COMPARISONS}/{self.folder.name}"}
        message, assertion = f"Assertion failed: {message}", None
        if told is not None:
            details |= {"pixels": told.pixels, "ratio": round(told.ratio, 6)}
            expected, actual = f"{self.name} ({_shown(told.expected)})", told.told(self.step)
            assertion = Assertion(self.step.describe(), expected, actual, plain=message if plain else "")
        return Failure(ASSERTION, message, self.step.selector, details=details, assertion=assertion, advice=advice)


async def compare_screenshot(judge: AssertionJudge, index: int, step: Assert, patience: float) -> Outcome:
    """Compare a screenshot with the step's file, which may be written instead; again as long as the judge waits."""
    run, session = judge.run, judge.run.seat
    name = baseline_name(
        step.screenshot or "", session.platform, run.plan.spec.profile or run.plan.context_of(step.user).device or ""
    )
    file = _file_of(run, name)
    if isinstance(file, Failure):
        return file
    if not pixels.installed():
        return Failure("INVALID_INPUT", pixels.MISSING)
    work = _Comparison(judge, step, name, file, session.pictures / f"{index}-{slug(Path(name).stem)}")
    try:
        outcome = await (_update(work, patience) if run.plan.update_baselines else _compare(work, patience))
    except TimeoutError as error:
        return Failure("STEP_TIMEOUT", f"{step.describe()}: {error}")
    except (ValueError, OSError) as error:
        return Failure("INVALID_INPUT", f"the baseline {name} cannot be used: {error}", advice=_RENEW)
    if isinstance(outcome, Passed):
        await asyncio.to_thread(shutil.rmtree, work.folder, ignore_errors=True)
    return outcome


async def _compare(work: _Comparison, patience: float) -> Outcome:
    """Compare until the screenshot matches, as long as the judge waits; and until it rests, at most `_SETTLE`."""
    expect = work.judge.expect
    end, restless_end = work.within(expect), work.within(max(expect, _SETTLE))
    told: PictureDifference | None = None
    previous, clock = b"", work.run.ports.clock
    for pause in pauses():
        seen = None if told is None else _differs(work, told, rests=False)
        shot = await (work.shot(patience) if seen is None else work.another(restless_end, seen))
        if isinstance(shot, Failure):
            return shot
        if not work.file.is_file():
            work.folder.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread((work.folder / ACTUAL).write_bytes, shot)
            return work.failure(f"there is no baseline {work.name} beside the task", _FIRST_RUN)
        rests = shot == previous
        late = clock.now() >= (end if rests else restless_end)
        if rests or late or not previous:
            told = await work.difference(shot)
            if told.allowed_by(work.step):
                return Passed()
            if late:
                return _differs(work, told, rests=rests)
        previous = shot
        await clock.sleep(pause)
    raise AssertionError("there is always another pause")


def _differs(work: _Comparison, told: PictureDifference, *, rests: bool) -> Failure:
    expect = work.judge.expect
    subject = work.step.selector or work.step.frame or "the page"
    waited = f" (waited {expect:g} s for it)" if expect else ""
    message = f"{subject} {LOOKS_LIKE} {work.name}: {told.told(work.step)}{waited}"
    if not rests:
        message += f"; it does not come to rest: {_MOVING}"
    return work.failure(
        message, f"Look at the pictures. If the page is right, {_RENEW}", told, plain=rests and not expect
    )


async def _update(work: _Comparison, patience: float) -> Outcome:
    """Write the baseline once the screenshot rests, unless what is there matches."""
    end, previous, clock = work.within(_SETTLE), b"", work.run.ports.clock
    for pause in pauses():
        shot = await work.shot(patience)
        if isinstance(shot, Failure):
            return shot
        if shot == previous:
            break
        if clock.now() >= end:
            return work.failure(f"no baseline was written, for the page does not come to rest: {_MOVING}", "")
        previous = shot
        await clock.sleep(pause)
    if work.file.is_file() and pixels.size_of(await asyncio.to_thread(work.file.read_bytes)) is not None:
        with suppress(ValueError):  # the file is broken
            if (await work.difference(previous)).allowed_by(work.step):
                return Passed({"baseline": work.name, "written": False})
    changed = await asyncio.to_thread(_write_baseline, work.file, previous)
    return Passed({"baseline": work.name, "written": changed})
