"""The routes of the live view: the page, the runs, their events as a stream, their evidence and their traces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache, partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.reporting.allure.serve import SANDBOX, VIEWER, viewer_folder
from harness.reporting.files import is_inside
from harness.reporting.history.file import HistoryError
from harness.reporting.history.reading import artifacts_of, recent_runs, usual_seconds
from harness.reporting.live.following import Followers, may_go_on, runs_with_events

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The policy of the page: it runs its own script, and asks nobody but this server."""
_STILL_HERE: Final = 15.0
"""Seconds of silence after which a stream sends a comment, so that nothing on the way takes it for dead."""
_RETRY: Final = 1000
"""Milliseconds after which a browser that was cut off asks again."""
_RECENT: Final = 30
"""The runs from which the usual time of a task is taken."""
_LISTED: Final = 200
"""The runs of the history that are looked through for those with events."""
_SAME_FOR: Final = 2.0
"""Seconds for which all viewers get the same answer about runs and usual times."""
_GONE: Final = "there are no artifacts of this task (any more)"
_ASSETS: Final = {"live.js": "live", "live.css": "live", "dashboard.css": "dashboard"}
"""File -> the package of the reports to which it belongs."""
_KINDS: Final = {".js": "text/javascript", ".css": "text/css"}


_VIDEO = "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'"
"""The policy of a video: in a sandbox it would not be played."""


class LiveView:
    """The live view of one project."""

    def __init__(self, root: Path, artifacts: Path) -> None:
        """`artifacts`: the folder of the artifacts of failed tasks."""
        self._root = root
        self._artifacts = artifacts
        self._followers = Followers(root)
        self._answers: dict[str, tuple[float, asyncio.Future[Any]]] = {}
        self.viewers = 0
        """How many streams are open."""

    @property
    def routes(self) -> list[Route]:
        """The routes, for a server that lets only those in who may look."""
        return [
            Route("/", self._page),
            Route("/live/{name}", self._asset),
            Route("/api/runs", self._runs),
            Route("/api/runs/{run}/events", self._events),
            Route("/api/usual", self._usual),
            Route("/api/evidence/{run}/{key}", self._names),
            Route("/evidence/{run}/{key}", self._listing),
            Route("/evidence/{run}/{key}/{path:path}", self._evidence),
            Route(f"/{VIEWER}/{{path:path}}", self._viewer),
        ]

    def something_runs(self) -> bool:
        """Return whether a run of the project goes on."""
        return any(each["running"] for each in self._known_runs())

    async def _page(self, _request: Request) -> Response:
        return HTMLResponse(_text("live.html"), headers={"Content-Security-Policy": _POLICY})

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return _missing(f"there is no {name}")
        return Response(_text(name, _ASSETS[name]), media_type=_KINDS[Path(name).suffix])

    async def _runs(self, _request: Request) -> Response:
        return JSONResponse(await self._shared("runs", self._known_runs))

    def _known_runs(self) -> list[dict[str, Any]]:
        try:
            known = {each.run: each for each in recent_runs(self._root, _LISTED)}
        except HistoryError:
            known = {}
        found = []
        for run in runs_with_events(self._root):
            each = known.get(run)  # none without a history, or before its first task has ended
            if each is not None:
                told = {"running": each.running, "ending": each.ending, "shard": each.shard}
            else:
                told = {"running": may_go_on(self._root, run), "ending": "", "shard": ""}
            found.append({"run": run, **told})
        return found

    async def _usual(self, request: Request) -> Response:
        """Id of a task -> its usual seconds: the median of its last passed runs, without the one that is looked at."""
        run = request.query_params.get("besides", "")
        try:
            return JSONResponse(await self._shared(f"usual {run}", partial(usual_seconds, self._root, _RECENT, run)))
        except HistoryError:
            return JSONResponse({})

    async def _shared(self, name: str, find: Callable[[], Any]) -> Any:
        """What `find` finds, in a thread; all who ask within a short time get the same."""
        now = asyncio.get_running_loop().time()
        at, answer = self._answers.get(name, (0.0, None))
        if answer is None or now - at > _SAME_FOR:
            self._answers = {key: each for key, each in self._answers.items() if now - each[0] <= _SAME_FOR}
            answer = asyncio.ensure_future(asyncio.to_thread(find))
            self._answers[name] = now, answer
        return await asyncio.shield(answer)

    async def _events(self, request: Request) -> Response:
        """The lines of a run's event file as server-sent events; the id of each is the offset after it."""
        told = request.headers.get("last-event-id") or request.query_params.get("from") or "0"
        if not re.fullmatch("[0-9]{1,18}", told):
            return _missing(f"{told[:40]!r} is no offset", 400)
        try:
            lines = self._followers.of(request.path_params["run"]).lines(int(told))
        except LookupError as error:
            return _missing(str(error))
        return StreamingResponse(self._stream(lines), media_type="text/event-stream")

    async def _stream(self, lines: AsyncIterator[Any]) -> AsyncIterator[str]:
        self.viewers += 1
        loop = asyncio.get_running_loop()
        told = loop.time()
        try:
            yield f"retry: {_RETRY}\n\n"
            async for found in lines:
                if found is not None:
                    data = "".join(f"data: {line}\n" for line in found.lines)
                    yield f"id: {found.end}\n{data}\n"
                elif loop.time() - told < _STILL_HERE:
                    continue
                else:
                    yield ": still here\n\n"
                told = loop.time()
        finally:
            self.viewers -= 1

    async def _names(self, request: Request) -> Response:
        """The files of one failed task."""
        folder = self._folder(request)
        return JSONResponse(_files_in(folder)) if folder else _missing(_GONE)

    async def _listing(self, request: Request) -> Response:
        """The same as a page."""
        folder = self._folder(request)
        if folder is None:
            return _missing(_GONE)
        page = _list_of(request.scope["path"], folder.name, _files_in(folder))
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    async def _evidence(self, request: Request) -> Response:
        own = {"Content-Security-Policy": _VIDEO if request.path_params["path"].endswith(".webm") else SANDBOX}
        return _file(self._folder(request), request, "there is no such file", own)

    def _folder(self, request: Request) -> Path | None:
        """The artifacts of a task of a run: another run of the task may have moved them, or have others there."""
        run, key = request.path_params["run"], request.path_params["key"]
        if any(name.startswith(".") for name in (run, key)):
            return None
        folder = artifacts_of(self._artifacts, key, run)
        return folder if folder is not None and is_inside(self._artifacts, folder) else None

    async def _viewer(self, request: Request) -> Response:
        return _file(viewer_folder(), request, "the installed Playwright has no such file of its trace viewer")


def _file(folder: Path | None, request: Request, missing: str, headers: Mapping[str, str] | None = None) -> Response:
    """The file that is asked for, if it is in the folder: links are followed first."""
    file = folder / request.path_params["path"] if folder else None
    if folder is None or file is None or not is_inside(folder, file) or not file.is_file():
        return _missing(missing)
    return FileResponse(file, headers=headers)


def _missing(message: str, status: int = 404) -> Response:
    return JSONResponse({"type": "error", "payload": {"code": "NOT_FOUND", "message": message}}, status)


def _files_in(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def _list_of(place: str, key: str, names: list[str]) -> str:
    links = [(f"{quote(place)}/{quote(name)}", name) for name in names]
    rows = "".join(f'<li><a href="{escape(link)}">{escape(name)}</a></li>\n' for link, name in links)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(key)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="/live/dashboard.css"></head>\n'
        f'<body><main class="wide"><h1>{escape(key)}</h1><ul>\n{rows}</ul></main></body></html>\n'
    )


@cache
def _text(name: str, report: str = "live") -> str:
    return files(f"harness.reporting.{report}").joinpath("templates", name).read_text("utf-8")
