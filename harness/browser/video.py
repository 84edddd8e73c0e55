"""The videos of a task: frames of Playwright's screencast, which become WebM only if they are kept.

Playwright's own recording would encode the video of each task while it runs, also of one that passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import deque
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import platformdirs
from playwright.async_api import BrowserContext, Page
from playwright.async_api import Error as PlaywrightError

from harness.resilience import Clock, Deadline

VIDEO = "video.webm"
NO_FFMPEG = "no ffmpeg found: run `playwright install ffmpeg`, or pip install 'pytest-taskspec[video]'"
LARGEST_PART = 12 * 2**20
"""Bytes of one file of frames. The two newest are kept: their encoding takes a few seconds at most."""
_STEP = 100.0
"""Milliseconds between frames."""
_QUALITY = 60
_WIDEST = 800
"""Pixels of the longer side, as of Playwright's own videos."""
_UNKNOWN_SIZE = (800, 600)
_TAIL = 1000.0
"""Milliseconds for which the last frame is shown at least."""
_END_SECONDS = 0.5
"""Seconds for ffmpeg to write what it has when its time is over."""


def find_ffmpeg(environment: Mapping[str, str] = os.environ) -> str | None:
    """The path of an ffmpeg: Playwright's own, that of the system, that of the extra `video`; None if there is none."""
    given = environment.get("PLAYWRIGHT_BROWSERS_PATH", "")
    cache = (
        Path(given) if given not in ("", "0") else platformdirs.user_cache_path("ms-playwright", False, opinion=False)
    )
    own = [str(path) for path in sorted(cache.glob("ffmpeg-*/ffmpeg*"), reverse=True) if os.access(path, os.X_OK)]
    if found := next(iter(own), None) or shutil.which("ffmpeg", path=environment.get("PATH")):
        return found
    if find_spec("imageio_ffmpeg") is None:
        return None
    import imageio_ffmpeg

    with contextlib.suppress(RuntimeError):  # its package without a program for this machine
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    return None


class Videos:
    """The films of all pages of a session, in the order of opening, over all its contexts."""

    def __init__(self, folder: Path, *, always: bool = False) -> None:
        self._folder = folder
        self._films: dict[Page, _Film] = {}
        self.always = always
        """Whether they are kept of a task that passes, too."""
        self.taken = False
        """Whether they were encoded."""

    def follow(self, context: BrowserContext, clock: Clock) -> None:
        """Film each page that opens in the context from now on. A page that cannot be filmed has no video."""

        async def film(page: Page) -> None:
            film = self._films[page] = _Film(self._folder / f"film-{len(self._films) + 1}", clock)
            with contextlib.suppress(PlaywrightError):  # it is gone
                await film.start(page)

        context.on("page", film)

    async def keep(self, page: Page, target: Path, until: Deadline) -> str:
        """Write the video of the page in which the task ended, and those of others as `video-N.webm`; returns a remark.

        Raises ValueError or OSError if there is none of that page.
        """
        if (ffmpeg := find_ffmpeg()) is None:
            raise ValueError(NO_FFMPEG)
        for film in self._films.values():
            film.end()
        self.taken = True
        last = self._films.pop(page, None)
        if last is None or not last.length:
            raise ValueError("the browser has sent no picture of the page")
        remark = await last.encode(ffmpeg, target, until)
        for number, film in enumerate(self._films.values(), 1):
            if film.length and film.clock.now() < until.at:
                with contextlib.suppress(ValueError):
                    await film.encode(ffmpeg, target.with_stem(f"{target.stem}-{number}"), until)
        return remark


class _Film:
    """The frames of one page, with their times, in files as ffmpeg reads them (Matroska with JPEG)."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self.clock = path, clock
        self._parts: deque[Path] = deque(maxlen=2)
        self._file: IO[bytes] | None = None
        self._size = (0, 0)
        self._shown: tuple[float, bytes] | None = None
        """The newest frame, which is written when the next one comes."""
        self._written = -_STEP
        self.length = 0
        """The number of frames in the files."""
        self._ended = False

    async def start(self, page: Page) -> None:
        """Take frames from now on. Raises Playwright's errors."""
        shown = page.viewport_size
        sides = (shown["width"], shown["height"]) if shown else _UNKNOWN_SIZE
        scale = min(1.0, _WIDEST / max(sides))
        width, height = self._size = (int(sides[0] * scale) & ~1, int(sides[1] * scale) & ~1)

        async def take(frame: Any) -> None:
            self._take(frame["timestamp"], frame["data"])
            await self.clock.sleep(2 * _STEP / 1000)  # the browser has two frames on the way

        await page.screencast.start(on_frame=take, quality=_QUALITY, size={"width": width, "height": height})

    def _take(self, at: float, picture: bytes) -> None:
        if self._ended:
            return
        if self._shown is not None and at - self._written >= _STEP:
            self._write(*self._shown)
        self._shown = at, picture

    def _write(self, at: float, picture: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk costs frames, and not the task
            if self._file is None or self._file.tell() > LARGEST_PART:
                self._turn()
            assert self._file is not None
            self._file.write(_cluster(round(at), picture))
            self.length += 1
        self._written = at

    def end(self) -> None:
        """Take no more frames; the last one is shown until now."""
        if self._shown is not None and not self._ended:
            self._write(*self._shown)
            at, picture = self._shown
            self._write(max(at + _TAIL, self.clock.wall().timestamp() * 1000), picture)
        self._ended, self._shown = True, None
        if self._file is not None:
            self._file.close()

    def _turn(self) -> None:
        """Go on in the next file, and delete the one before the last."""
        number = int(self._parts[-1].suffix[1:]) + 1 if self._parts else 0
        if self._file is not None:
            self._file.close()
            self._file = None
        if len(self._parts) == self._parts.maxlen:
            self._parts[0].unlink(missing_ok=True)
        self._path.parent.mkdir(exist_ok=True)  # each user has a folder
        self._file = (part := self._path.with_suffix(f".{number}")).open("wb")
        self._parts.append(part)

    async def encode(self, ffmpeg: str, target: Path, until: Deadline) -> str:
        """Write the WebM; returns a remark. Raises ValueError or OSError if ffmpeg does not make one."""
        whole = self._path.with_suffix(".mkv")
        await asyncio.to_thread(self._join, whole)
        with whole.open("rb") as frames:
            program = await asyncio.create_subprocess_exec(
                ffmpeg, *_OPTIONS.format(*self._size).split(), str(target),
                stdin=frames, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        try:
            async with asyncio.timeout(until.left(self.clock.now())):
                said = (await program.communicate())[1]
        except TimeoutError:
            program.terminate()  # then it completes the file
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await program.wait()
            return await asyncio.to_thread(_first_part, target)
        finally:
            if program.returncode is None:
                program.kill()
            whole.unlink(missing_ok=True)
        if program.returncode:
            raise ValueError(f"ffmpeg failed: {said.decode('utf-8', 'replace').strip()[-200:]}")
        return "" if self._parts[0].suffix == ".0" else "its newest part: the video was too long to keep all"

    def _join(self, whole: Path) -> None:
        with whole.open("wb") as target:
            target.write(_HEAD)
            for part in self._parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target)


def _first_part(target: Path) -> str:
    """The remark about a video that was not encoded to its end. Raises ValueError if there is nothing of it."""
    if not (target.is_file() and target.stat().st_size):
        raise ValueError("ffmpeg wrote nothing in time")
    return "only its first part: there was no time to encode it all"


_OPTIONS = (
    "-loglevel error -f matroska -fpsprobesize 0 -probesize 32 -analyzeduration 0 -i pipe:0 -y -an -c:v libvpx-vp9 "
    "-qmin 0 -qmax 50 -crf 8 -deadline realtime -cpu-used 8 -lag-in-frames 0 -b:v 1000k -threads 1 "
    "-vf pad={0}:{1}:0:0:gray,crop={0}:{1}:0:0"
)
"""Playwright's own options, except its 25 frames per second: the frames keep their times."""


# Matroska, as far as ffmpeg needs it to read frames with their times. Pure.


def _element(name: str, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return bytes.fromhex(name) + (len(data) | 1 << 56).to_bytes(8, "big") + data


def _number(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _cluster(ms: int, picture: bytes) -> bytes:
    return _element("1f43b675", _element("e7", _number(ms)), _element("a3", b"\x81\0\0\x80", picture))


_ONE = _number(1)
_HEAD = b"".join((
    _element("1a45dfa3", _element("4286", _ONE), _element("42f7", _ONE), _element("42f2", _number(4)),
             _element("42f3", _number(8)), _element("4282", b"matroska"), _element("4287", _number(4)),
             _element("4285", _number(2))),
    bytes.fromhex("18538067"), b"\x01" + b"\xff" * 7,  # a segment of unknown length
    _element("1549a966", _element("2ad7b1", _number(10**6)), _element("4d80", b"ours"), _element("5741", b"ours")),
    _element("1654ae6b", _element("ae", _element("d7", _ONE), _element("73c5", _ONE), _element("83", _ONE),
             _element("9c", _number(0)), _element("86", b"V_MJPEG"),
             _element("e0", _element("b0", _ONE), _element("ba", _ONE)))),
))  # fmt: skip
