"""`${fake.email}`: the same value for the same seed, and names that can be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.spec.generated import ANY_MOMENT, Generated
from harness.spec.references import BadReferenceError, reference
from harness.spec.task import TaskSpec
from tests.unit.spec.files import HEAD, problems, write


def value(body: str, task_id: str = "T", seed: int = 0, locale: str | None = None) -> Any:
    return Generated(TaskSpec(task_id=task_id, seed=seed), ANY_MOMENT, locale=locale)(reference(body))


def test_a_value_depends_on_seed_task_name_and_number_alone() -> None:
    email = value("fake.email")
    assert "@" in email
    assert value("fake.email") == value("fake.email#1") == email
    value("fake.name")
    assert value("fake.email") == email
    others = [value("fake.email#2"), value("fake.email", "T[a]"), value("fake.email", seed=1)]
    assert len({email, *others}) == 4


def test_values_are_json() -> None:
    assert isinstance(value("fake.pyint"), int)
    assert isinstance(value("fake.boolean"), bool)
    assert isinstance(value("fake.latitude"), float)
    assert isinstance(value("fake.words"), list)
    assert set(value("fake.simple_profile")) >= {"name", "mail"}
    assert len(value("fake.date_of_birth")) == len("2000-01-01")


def test_the_locale_of_the_browser_is_used_if_faker_has_it_and_the_name() -> None:
    assert value("fake.iban", locale="de-DE").startswith("DE")
    assert value("fake.iban", locale="de").startswith("DE")
    assert value("fake.iban", locale="tlh") == value("fake.iban", locale="en-US") == value("fake.iban")
    assert value("fake.state_abbr", locale="fr-FR") == value("fake.state_abbr")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("fake.emial", "no provider `emial` (did you mean `email`?)"),
        ("fake.enum", "needs an argument (`enum_cls`)"),
        ("fake.json_bytes", "no value that a task can hold: it is of the type bytes"),
        ("fake.seed_instance", "no provider `seed_instance`"),
        ("fake.add_provider", "no provider `add_provider`"),
        ("fake._seed", "not a name of Faker's"),
        ("fake.address.city", "such as `${fake.city}`"),
        ("fake.email#0", "fake.email#2 is a second value"),
        ("fake.", "not a name of Faker's"),
        ("fke.email", "did you mean `fake.`?"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(body: str, words: str) -> None:
    with pytest.raises(BadReferenceError) as raised:
        value(body)
    assert words in str(raised.value)


def test_without_faker_one_problem_has_the_place_and_the_command(tmp_path: Path) -> None:
    path = write(
        tmp_path, HEAD + 'goal: a ${fake.email}\ninputs: {n: "${fake.name}"}\nparametrize: [{x: "${fake.job}"}]\n'
    )
    load = "import sys; sys.modules['faker'] = None\nfrom harness.spec.load import load_file\nload_file(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", load, str(path)], capture_output=True, text=True, check=False)
    shown = done.stderr
    assert shown.count("needs Faker, which is not installed") == 1, shown
    assert f"{path}:5:9: goal: " in shown
    assert "pip install 'pytest-taskspec[fake]'" in shown


def test_an_unknown_name_is_told_at_its_place_in_every_part(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + 'goal: a ${fake.emial}\nmemory: {n: "${fake.naem}"}\n')
    assert [(each.line, each.column, each.hint) for each in problems(path)] == [
        (5, 9, "did you mean `email`?"),
        (6, 14, "did you mean `name`?"),
    ]
