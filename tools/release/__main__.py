"""`make release`: everything up to the upload. `ARGS=--rehearse` does the same with a tree that is not ready yet.

It checks the tree, the version and the changelog, builds the source distribution and from that the wheel, checks both,
installs the wheel alone into a fresh environment and uses it, builds the documentation beside that of earlier versions,
and prints the line that uploads. `--tag` tags the commit, here and not elsewhere.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

from bootstrap.command import SITE
from tools.release.site import index

ROOT = Path(__file__).parents[2]
UPLOADER = ("install", "-q", "--disable-pip-version-check", "--group", "release")
UNRELEASED = "unreleased"
TASK = "smoke"


class NotReadyError(Exception):
    """The release cannot go on; the message says what to do."""


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def project() -> dict[str, Any]:
    """`[project]` of pyproject.toml: the one place of the version."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def obstacles(version: str, changelog: str, changed: str, tags: str) -> list[str]:
    """What must be mended first; `changed` is what `git status --porcelain` prints, `tags` what `git tag` does."""
    found = []
    if changed.strip():
        found.append(f"{len(changed.splitlines())} files are not committed (`git status`)")
    heading = re.search(rf"^## {re.escape(version)}(?![\w.])(.*)$", changelog, re.MULTILINE)
    if heading is None:
        found.append(f"CHANGELOG.md has no section `## {version}`")
    elif UNRELEASED in heading[1]:
        found.append(f"CHANGELOG.md calls {version} {UNRELEASED}: write the day in its place, as in (2026-12-01)")
    if f"v{version}" in tags.split():
        found.append(f"the tag v{version} exists: raise `version` in pyproject.toml")
    return found


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(("git", *arguments), cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotReadyError(f"a release is made in a clone, with git: {error}") from error
    return done.stdout


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run it; what it prints is shown only if it fails. Raises NotReadyError."""
    done = subprocess.run(command, cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout, end="", flush=True)
        raise NotReadyError(f"failed with exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it: so what is published can be built again."""
    for old in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
        old.unlink()
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    run(*hatchling, "-t", "sdist")
    (sdist,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as files:
            files.extractall(unpacked, filter="data")
        run(*hatchling, "-t", "wheel", cwd=Path(unpacked, sdist.name.removesuffix(".tar.gz")))
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def check(sdist: Path, wheel: Path) -> None:
    run(sys.executable, "-m", "pip", *UPLOADER)
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/acceptance/test_package.py")


def use(wheel: Path, version: str) -> None:
    """Install the wheel alone, and let its command say the version, write a task and check it."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder, "environment"), with_pip=True)
        tools = Path(folder, "environment", "bin")
        run(str(tools / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel))
        harness = str(tools / "harness")
        if version not in (said := run(harness, "--version")):
            raise NotReadyError(f"the installed wheel says {said.strip()}, and not {version}")
        run(harness, "new", TASK, cwd=Path(folder))
        run(harness, "validate", ".", cwd=Path(folder))


def document(site: Path, version: str) -> None:
    """The documentation of this version, beside that of the earlier ones."""
    shutil.rmtree(site / version, ignore_errors=True)
    site.mkdir(parents=True, exist_ok=True)
    program, *options = SITE
    run(str(Path(sys.executable).with_name(program)), *options[:-1], str(site / version))
    shutil.rmtree(site / version / ".doctrees", ignore_errors=True)
    say(f"documentation of {', '.join(index(site))} in {site}")


def release(wanted: argparse.Namespace) -> None:
    about = project()
    version: str = about["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    found = obstacles(version, changelog, git("status", "--porcelain"), git("tag", "--list"))
    for each in found:
        say(each)
    if found and not wanted.rehearse:
        raise NotReadyError("nothing was built; ARGS=--rehearse goes on all the same, and tags nothing")
    if "Source" not in about.get("urls", {}):
        say("[project.urls] has no Source: the index will show the README without its links and its picture")
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    sdist, wheel = build(folder)
    say(f"built {sdist.name} and {wheel.name}")
    check(sdist, wheel)
    use(wheel, version)
    say("both are as they should be, and the wheel alone works")
    document(wanted.site, version)
    pushed = ""
    if wanted.tag and not wanted.rehearse:
        git("tag", "-a", f"v{version}", "-m", f"{about['name']} {version}")
        say(f"tagged v{version}, here only")
        pushed = f" && git push origin v{version}"
    if wanted.rehearse:
        return say("this was a rehearsal: do not upload what it built")
    say(f"to upload: .venv/bin/twine upload dist/{sdist.name} dist/{wheel.name}{pushed}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="make release", description="Do everything for a release but the upload.")
    parser.add_argument("--rehearse", action="store_true", help="go on although something is not ready")
    parser.add_argument("--tag", action="store_true", help="tag the commit, in this clone only")
    parser.add_argument(
        "--site", type=Path, default=ROOT / "dist" / "site", help="where the documentation of all versions lies"
    )
    try:
        release(parser.parse_args())
    except NotReadyError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
