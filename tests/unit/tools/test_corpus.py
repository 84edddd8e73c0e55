"""tools/corpus: what is masked, what is not, and how two corpora are compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.corpus.compare import differences
from tools.corpus.masks import masked

ROOT = Path(__file__).parents[3]
VARIES = {
    "a moment": ('{"at": "2026-11-28T12:25:28.075506+00:00"}', '{"at": "2027-01-02T03:04:05Z"}'),
    "a run": ("run 20261128T122525-8563 began", "run 20270102T030405-1 began"),
    "an epoch": ('"start": 1795868792207', '"start": 1795869999999'),
    "seconds of a step": ('{"seconds": 0.0}', '{"seconds": 12}'),
    "the first token": ('{"first_token": 0.267}', '{"first_token": 0.029}'),
    "seconds on a screen": ("click  ok  0.1 s", "click  ok  1 min 3 s"),
    "milliseconds of a call": ("Timeout 3999ms exceeded", "Timeout 3998ms exceeded"),
    "a port": ("http://127.0.0.1:2811/", "http://127.0.0.1:40000/"),
    "a process": ('{"pid": 12, "x": 1}', '{"pid": 99999, "x": 1}'),
    "a drawn name": (
        "0b0c9c5e-1111-4222-8333-0123456789ab-attachment.txt",
        "ffffffff-1111-4222-8333-0123456789ab-attachment.txt",
    ),
    "the size of a file": ("trace.zip  144 KB", "trace.zip  2 KB"),
    "a place": ("/tmp/a/project/errors/X", "/tmp/b/project/errors/X"),
    "frames of the code": (
        '{"stack_trace": "File \\"/a.py\\", line 176, in f\\n    g()", "x": 1}',
        '{"stack_trace": "File \\"/b.py\\", line 2, in h", "x": 1}',
    ),
    "a picture in a page": ('src="data:image/png;base64,iVBO/+=="', 'src="data:image/png;base64,AAAA"'),
    "the width of a column": ("task   seconds", "task       seconds"),
}
STAYS = {
    "a code": ("STEP_TIMEOUT at step 4", "STEP_TIMEOUT at step 5"),
    "a setting": ("looked for 1s", "looked for 2s"),
    "a price": ("expected: 29.99", "expected: 29.98"),
    "an exit code": ("exit code 1", "exit code 2"),
    "an indentation": ("  url: a", "    url: a"),
    "what is beside the frames": ('{"stack_trace": "a", "message": "b"}', '{"stack_trace": "a", "message": "c"}'),
    "the identity of a test in Allure": (
        '"historyId": "0b0c9c5e111142220b0c9c5e11114222"',
        '"historyId": "1b0c9c5e111142220b0c9c5e11114222"',
    ),
}


def both(texts: tuple[str, str]) -> tuple[str, str]:
    one, other = (masked(text, "a.txt", {"/tmp/a": "<tmp>", "/tmp/b": "<tmp>"}) for text in texts)
    return one, other


@pytest.mark.parametrize("what", VARIES)
def test_what_differs_from_run_to_run_is_masked(what: str) -> None:
    one, other = both(VARIES[what])
    assert one == other


@pytest.mark.parametrize("what", STAYS)
def test_what_a_user_reads_is_not_masked(what: str) -> None:
    one, other = both(STAYS[what])
    assert one != other


def test_the_longest_place_is_masked_first() -> None:
    assert masked("/a/b/c", "a.txt", {"/a": "<a>", "/a/b": "<b>"}) == "<b>/c"


def corpus(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def compared(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "tools.corpus", "compare", str(tmp_path / "a"), str(tmp_path / "b"))
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_equal_corpora_end_with_0_whatever_was_measured(tmp_path: Path) -> None:
    corpus(tmp_path / "a", tasks__screen="one\n", bench__steps="1.0")
    corpus(tmp_path / "b", tasks__screen="one\n", bench__steps="2.0")
    ran = compared(tmp_path)
    assert (ran.returncode, ran.stdout.startswith("equal: ")) == (0, True)


def test_a_difference_is_told_with_its_file_and_its_lines_and_ends_with_1(tmp_path: Path) -> None:
    corpus(tmp_path / "a", tasks__screen="one\ntwo\n")
    corpus(tmp_path / "b", tasks__screen="one\nthree\n")
    ran = compared(tmp_path)
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "--- tasks/screen",
        "+++ tasks/screen",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+three",
    ]


def test_a_file_that_only_one_has_is_a_difference_in_a_part_that_both_have(tmp_path: Path) -> None:
    before, after = corpus(tmp_path / "a", tasks__old="", red__of="x"), corpus(tmp_path / "b", tasks__new="")
    assert list(differences(before, after)) == [f"only in {after}: tasks/new", f"only in {before}: tasks/old"]
