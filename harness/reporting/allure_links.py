"""Where a task's file can be read on the web: only a CI system knows the repository and the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote


def source_url(file: Path, environ: Mapping[str, str]) -> str | None:
    """The address of the file in the commit that is tested; None outside of CI, or for a file that is not in it."""
    for pattern, root in _places(environ):
        try:
            path = file.resolve().relative_to(Path(root).resolve())
        except (ValueError, OSError):
            return None
        return f"{pattern}/{quote(path.as_posix())}"
    return None


def _places(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(what stands before the path of a file, the folder of the repository) of the CI system this runs on."""
    if all(environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_WORKSPACE")):
        base = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
        yield f"{base}/blob/{environ['GITHUB_SHA']}", environ["GITHUB_WORKSPACE"]
    elif all(environ.get(name) for name in ("CI_PROJECT_URL", "CI_COMMIT_SHA", "CI_PROJECT_DIR")):
        yield f"{environ['CI_PROJECT_URL']}/-/blob/{environ['CI_COMMIT_SHA']}", environ["CI_PROJECT_DIR"]
