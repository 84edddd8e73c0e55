"""Groups of failures for a report, made from the catalog: product defects apart from infrastructure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from harness.recovery.catalog import CATALOG, FAMILIES, Category, ErrorType, Family, Group, Row

# The address of a task's file on the web: only a CI system knows the repository and the commit.


def source_url(file: Path, environ: Mapping[str, str]) -> str | None:
    """The address of the file in the tested commit; None outside of CI, or for a file that is not in the repository."""
    for pattern, root in _places(environ):
        try:
            path = file.resolve().relative_to(Path(root).resolve())
        except (ValueError, OSError):
            return None
        return f"{pattern}/{quote(path.as_posix())}"
    return None


def _places(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(prefix of a file's address, folder of the repository) for the CI system that this runs on."""
    if all(environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_WORKSPACE")):
        base = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
        yield f"{base}/blob/{environ['GITHUB_SHA']}", environ["GITHUB_WORKSPACE"]
    elif all(environ.get(name) for name in ("CI_PROJECT_URL", "CI_COMMIT_SHA", "CI_PROJECT_DIR")):
        yield f"{environ['CI_PROJECT_URL']}/-/blob/{environ['CI_COMMIT_SHA']}", environ["CI_PROJECT_DIR"]


GROUPS = tuple(each.value for each in Group)

_BY_TYPE = {ErrorType.ACTION_FAILED: Group.ACTION, ErrorType.STATE_INCONSISTENCY: Group.STATE}
_BY_PREFIX = {"BROWSER": Group.BROWSER, "SERVICE": Group.NETWORK, "SPEC": Group.FILE, "INCOMPLETE": Group.STATE}


def group(row: Row) -> Group:
    """The one group that a code belongs to."""
    prefix = row.code.partition("_")[0]
    if row.family is not Family.NONE:
        return FAMILIES[row.family].report_group
    if row.category is Category.CATASTROPHIC:
        return Group.POLICY
    return _BY_PREFIX.get(prefix) or _BY_TYPE.get(row.error_type) or Group.REST


def grouped_codes() -> dict[str, tuple[str, ...]]:
    """Group -> its codes, in the order of GROUPS; groups without codes are left out."""
    found = {name: tuple(code for code, row in CATALOG.items() if group(row) == name) for name in GROUPS}
    return {name: codes for name, codes in found.items() if codes}
