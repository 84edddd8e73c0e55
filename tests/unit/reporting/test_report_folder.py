"""The folder that a report goes to: nothing of others is deleted, and a report goes only when another stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.allure.build import MARK, ReportError, check_output, replaced


def filled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    return folder


def check(output: Path) -> None:
    check_output(output.parent / "results", output, output.parent / "project")


def make(output: Path, name: str = "index.html") -> None:
    with replaced(output) as made:
        filled(made, name)


@pytest.mark.parametrize(
    "names",
    [
        ("index.html", "src/main.py"),
        ("index.html", "data/x.json", "widgets/x.json", "thesis.txt"),
        ("index.html",),
        ("index.html", "summary.json", "test-results.json"),
        ("summary.json", "test-results.json"),
    ],
)
def test_a_folder_of_somebody_elses_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(ReportError, match="contains no report"):
        check(filled(tmp_path / "site", *names))


def test_a_report_may_be_made_anew(tmp_path: Path) -> None:
    check(filled(tmp_path / "report", MARK, "whatever"))
    check(tmp_path / "none")


def test_the_place_of_work_is_refused_even_with_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = filled(tmp_path / "work", MARK, "deep/x")
    with pytest.raises(ReportError, match="is or contains the project"):
        check_output(tmp_path / "results", work, work / "deep")
    monkeypatch.chdir(work)
    with pytest.raises(ReportError, match="the current folder"):
        check_output(tmp_path / "results", Path(), tmp_path / "project")


def test_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="is a file"):
        check(filled(tmp_path, "report.html") / "report.html")


def test_the_old_one_goes_when_the_new_one_stands(tmp_path: Path) -> None:
    make(tmp_path / "deep/report", "stale.html")
    make(tmp_path / "deep/report")
    assert sorted(path.name for path in (tmp_path / "deep/report").iterdir()) == [MARK, "index.html"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["report"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, ReportError])
def test_what_is_given_up_leaves_the_old_one(tmp_path: Path, end: type[BaseException]) -> None:
    make(tmp_path / "report")
    with pytest.raises(end), replaced(tmp_path / "report") as made:
        filled(made, "half.html")
        raise end
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert (tmp_path / "report/index.html").is_file()


def test_a_link_leads_to_the_folder_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "report").symlink_to(tmp_path / "disk/reports")
    for _ in range(2):
        check(tmp_path / "report")
        make(tmp_path / "report")
    assert (tmp_path / "report").is_symlink()
    assert (tmp_path / "disk/reports/index.html").is_file()


def test_a_folder_that_cannot_be_renamed_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one where another disk begins."""
    report = filled(tmp_path / "report", MARK, "old/x", "stale.html")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path == report:
            raise OSError(16, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    make(report)
    assert sorted(path.name for path in report.iterdir()) == [MARK, "index.html"]


def test_a_disk_that_does_not_take_it(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot be written"), replaced(tmp_path / "report"):
        pass
