"""The commands that README and docs tell people to type, and what is put in for their placeholders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = ("harness", "pytest", "make", "python", "pip", "npx", "playwright", "apt-get")
_FENCE = re.compile(r"^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(rf"(?<!`)`((?:{'|'.join(PROGRAMS)}) [^`\n]+)`(?!`)")
_SHELL = ("", "sh", "bash", "console")


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


def commands() -> list[Command]:
    """All of them, each text once, in the order of the pages."""
    found: dict[str, Command] = {}
    for page in pages():
        text = page.read_text("utf-8")
        for line in (*_typed(text), *_INLINE.findall(text)):
            for each in _several(line):
                found.setdefault(each, Command(each, page.relative_to(ROOT).as_posix()))
    return list(found.values())


def _typed(text: str) -> Iterator[str]:
    """Lines of blocks that show a terminal, and what workflows of CI systems run."""
    for block in _FENCE.finditer(text):
        if block["language"] in ("yaml", "yml"):
            yield from _of_workflow(block["text"])
        elif block["language"] in _SHELL:
            lines = block["text"].replace("\\\n", " ").splitlines()
            yield from (line.strip().removeprefix("$ ") for line in lines if _is_command(line))


def _is_command(line: str) -> bool:
    words = line.strip().removeprefix("$ ").split()
    return len(words) > 1 and words[0] in PROGRAMS and not line.startswith(" ")


def _of_workflow(text: str) -> Iterator[str]:
    """`run:` of GitHub's steps, `script:` of GitLab's jobs."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    for job in _jobs(document):
        steps = job.get("steps", ())
        lines = [line for step in steps if isinstance(step, dict) for line in str(step.get("run", "")).splitlines()]
        lines += [str(line) for line in (*job.get("before_script", ()), *job.get("script", ()))]
        yield from (line.strip() for line in lines if _is_command(line.strip()))


def _jobs(document: object) -> Iterator[dict[str, list[object]]]:
    if isinstance(document, dict):
        yield from (job for job in document.get("jobs", document).values() if isinstance(job, dict))


def _several(line: str) -> Iterator[str]:
    """`harness services status|start` is two commands. Comments go, and what a shell does with the output."""
    line = re.sub(r"\s+#\s.*$", "", line.split(" && ", maxsplit=1)[0]).strip()
    line = re.sub(r"\s+(?:\||>)\s.*$", "", line)
    match = re.search(r"(?<=\s)(\w+(?:\|\w+)+)(?=\s|$)", line)
    if match is None or match[1].isupper():
        yield line
        return
    for choice in match[1].split("|"):
        yield line[: match.start()] + choice + line[match.end() :]
