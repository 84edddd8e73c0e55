"""`harness import miniwob`: what it writes, and that its options are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.commands import Imported
from harness.cli.import_tests import import_miniwob
from harness.model.settings import load_settings
from harness.spec.load import load_file
from harness.spec.parametrize import expand

DOCS = Path(__file__).parents[3] / "docs/evaluation.md"


def imported(folder: Path, *seeds: int) -> Path:
    for name in ("core/core.js", "miniwob/click-me.html", "miniwob/type-me.html"):
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    import_miniwob(folder / "pages", folder / "made", [], seeds, force=False)
    return folder / "made"


@pytest.mark.parametrize(
    ("seeds", "ids"), [((7,), ["MINIWOB-click-me"]), ((1, 2), ["MINIWOB-click-me[1]", "MINIWOB-click-me[2]"])]
)
def test_each_page_is_a_task_that_loads_with_its_seeds(tmp_path: Path, seeds: tuple[int, ...], ids: list[str]) -> None:
    made = imported(tmp_path, *seeds)
    assert sorted(each.name for each in (made / "tasks").iterdir()) == ["click-me.task.yaml", "type-me.task.yaml"]
    cases = [*expand(load_file(made / "tasks/click-me.task.yaml", needs_steps=False))]
    assert [case.spec.task_id for case in cases] == ids
    assert cases[0].spec.page_values["miniwob"]["seed"] == (7 if len(seeds) == 1 else "${param.seed}")
    assert "http://miniwob.local/core/core.js" in str(load_settings(made).services["miniwob"].health)


def test_each_of_its_options_is_in_the_documentation() -> None:
    options = [option for each in Imported()["import"].params for option in each.opts]
    said = DOCS.read_text("utf-8").partition("## MiniWoB++")[2]
    assert [each for each in ("--pages", "--only", "--seeds", "--output", "--force") if each not in options] == []
    assert [each for each in ("--pages", "--only", "--seeds", "--output", "--force") if each not in said] == []
