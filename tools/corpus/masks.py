"""The one table of what differs between two runs of the same commit, and what stands in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import NamedTuple


class Mask(NamedTuple):
    """A pattern, and the text that replaces each of its matches."""

    pattern: str
    replacement: str
    files: str = "*"
    """The files of the corpus that it concerns."""


SECONDS = "seconds|at|started|duration|t|start|end|stop|time|after|avgRecoveryTime|median|max|p95|first_token"
POLLED = "attempts|totalAttempts|observations|polls"

MASKS = (
    # Moments, and what is made of them.
    Mask(r"\b20\d{6}T\d{6}-\d+(-\w+)?\b", "<run>"),
    Mask(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:\d\d)?", "<time>"),
    Mask(r"(?m)^\d\d:\d\d:\d\d([.,]\d+)? ", "<clock> "),
    Mask(r"\b1[789]\d{8}(\d{3}|\.\d+)\b", "<epoch>"),
    # How long something took. `4s` without a space is a setting.
    Mask(rf'"({SECONDS}|\w+_seconds|\w*[dD]uration)": -?\d+(\.\d+)?(e-?\d+)?', r'"\1": <seconds>'),
    Mask(r"\b(\d+ (h|min) )*\d+(\.\d+)? (h|min|s|ms)\b", "<seconds> s"),
    Mask(r"\b\d+ms\b", "<ms>"),
    Mask(r'\b(time|value)="\d+\.\d+"', r'\1="<seconds>"', "*.xml"),
    Mask(r"(?m)^ *(-?\d+\.\d+|<seconds>)(?=,?$)", "<seconds>", "*.json"),
    Mask(r"\b\d+\.\d+s( \([\d:]+\))? ====", "<seconds> ====", "*screen.txt"),
    Mask(r'": \d+\.\d+', '": <seconds>', "*durations*"),
    Mask(r"(?<=\s)\d+\.\d(?=\s)", "<seconds>", "*history*.txt"),
    Mask(r"(?m)^- \d\d:\d\d:\d\d ", "- <clock> ", "*summary.md"),
    Mask(r"struck once at \d+\.", "struck once at <seconds>"),
    Mask(r"(?<=\s)\d+\.\d(?=\s)", "<seconds>", "campaign/*"),
    Mask(r'(?ms)^ "slow_(steps|tasks)": \[.*?^ \]', r' "slow_\1": <the slowest>', "*dashboard*"),
    # What is polled is asked more often on a slow machine.
    Mask(rf'"({POLLED})": \d+', r'"\1": <polled>'),
    Mask(r'"value": 0\.\d{4}\b', '"value": <share>'),
    # Processes, sockets, places, names that are drawn.
    Mask(r'"(pid|port|ppid|owner|uptime|position|process_started|pid_namespace)": \d+(\.\d+)?', r'"\1": <number>'),
    Mask(r"\bpid \d+|\b\d+-MainThread", "<process>"),
    Mask(r"\b(127\.0\.0\.1|localhost):\d+", r"\1:<port>"),
    Mask(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    Mask(r"\b[0-9a-f]{16}\b|\bpage@[0-9a-f]{32}\b", "<drawn>"),
    Mask(r"\b\d+(\.\d+)? (bytes|KB|MB)", "<size>"),
    Mask(r'"bytes": \d+', '"bytes": <size>'),
    # The newest one that an answer came for in time.
    Mask(r'"protocol": "[\d-]+"', '"protocol": <protocol>'),
    # The frames of a stack are the code's, and a refactoring moves them; the message beside it stays.
    Mask(r'"stack_trace": "([^"\\]|\\.)*"', '"stack_trace": "<stack>"'),
    # Pictures, and where and how wide the bars of a page are.
    Mask(r"data:image/\w+;base64,[\w+/=]+", "<picture>"),
    Mask(r'style="[^"]*"', 'style="<style>"', "*.html"),
    Mask(r'<td class="n">[\d.]+( [kKM]?i?B)?</td>', '<td class="n"><number></td>', "*.html"),
    # Columns are as wide as their longest figure.
    Mask(r"(?m)(?<=\S) {2,}(?=\S)", "  ", "*.txt"),
    Mask(r"(?m)[ \t]+$", "", "*.txt"),
    Mask(r"[=_]{4,}", "====", "*.txt"),
)


def masked(text: str, file: str, places: Mapping[str, str]) -> str:
    """The text of a file of the corpus, without what differs from run to run; `places` are paths and their names."""
    for place, name in sorted(places.items(), key=lambda each: -len(each[0])):
        text = text.replace(place, name)
    for mask in MASKS:
        if fnmatch(file, mask.files):
            text = re.sub(mask.pattern, mask.replacement, text)
    return text
