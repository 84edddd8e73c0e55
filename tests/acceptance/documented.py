"""The commands that README and docs tell people to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = ("harness", "pytest", "make", "python", "pip", "npx", "playwright", "apt-get")
_FENCE = re.compile(r"^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
_PROGRAM = rf"(?:[A-Z_]+=\S+ )*(?:{'|'.join(PROGRAMS)})"
_INLINE = re.compile(rf"(?<!`)`({_PROGRAM}\s(?!=)[^`]+)`(?!`)")
_TYPED = re.compile(rf"(?:\$ )?({_PROGRAM} [^=\s].*)")
_SHELL = ("", "sh", "bash", "console")
_RUN_BY_CI = ("run", "before_script", "script", "after_script")


@dataclass(frozen=True, slots=True)
class Command:
    """One line, and where it stands."""

    text: str
    place: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


def pages() -> list[Path]:
    """What people read; not the decisions, which tell what was, and not the generated tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced texts of a page in these languages, in order."""
    return [found["text"] for found in _FENCE.finditer(page.read_text("utf-8")) if found["language"] in languages]


def commands() -> list[Command]:
    """All of them, each text once, in the order of the pages."""
    found: dict[str, Command] = {}
    for page in pages():
        text = page.read_text("utf-8")
        prose = (" ".join(each.split()) for each in _INLINE.findall(_FENCE.sub("", text)))
        for line in (*_typed(text), *prose):
            for each in _several(line):
                found.setdefault(each, Command(each, page.relative_to(ROOT).as_posix()))
    return list(found.values())


def _typed(text: str) -> Iterator[str]:
    """Lines of blocks that show a terminal, and what workflows of CI systems run."""
    for block in _FENCE.finditer(text):
        if block["language"] in ("yaml", "yml"):
            yield from _lines("\n".join(_of_workflow(block["text"])))
        elif block["language"] in _SHELL:
            yield from _lines(block["text"])


def _lines(text: str) -> Iterator[str]:
    """Those that are commands. A backslash at the end of a line goes on in the next; what is indented is output."""
    for line in text.replace("\\\n", " ").splitlines():
        if match := _TYPED.fullmatch(line.rstrip()):
            yield " ".join(re.split(r"\s{3,}", match[1])[0].split())  # what it does may stand beside it


def _of_workflow(text: str) -> Iterator[str]:
    """`run:` of GitHub's steps, the scripts of GitLab's jobs, wherever they stand."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    yield from _scripts(document)


def _scripts(document: Any) -> Iterator[str]:
    if isinstance(document, list):
        for each in document:
            yield from _scripts(each)
    if isinstance(document, dict):
        for key, value in document.items():
            if key in _RUN_BY_CI:
                yield from value if isinstance(value, list) else (str(value),)
            else:
                yield from _scripts(value)


def _several(line: str) -> Iterator[str]:
    """`a && b` is two, and so is `harness services status|start`. Comments go, and what is done with the output."""
    for part in re.sub(r"\s+#\s.*$", "", line).split(" && "):
        alone = re.sub(r"\s+(?:\||>>?)\s.*$", "", part).strip().replace("\\|", "|")
        match = re.search(r"(?<=\s)([a-z]+(?:\|[a-z]+)+)(?=\s|$)", alone)
        if _TYPED.fullmatch(alone):
            choices = match[1].split("|") if match else [""]
            yield from (alone.replace(match[1], choice, 1) if match else alone for choice in choices)
