"""`[tool.harness.models]`: what is refused, where, and what may be written instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.model.model_settings import fallbacks_of, keys
from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.reporting.redaction import Redactor
from harness.resilience.breaker import BreakerSettings
from harness.runner.circuits import thresholds_of

GOOD = 'provider = "openai"\nmodel = "gpt-4o"\nkey = "${env:PLANTED_KEY}"\n'


def loaded(folder: Path, **models: str) -> Settings:
    text = "\n".join(f"[tool.harness.models.{name}]\n{body}" for name, body in models.items())
    (folder / "pyproject.toml").write_text(text, "utf-8")
    return load_settings(folder)


def refusal(folder: Path, **models: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(folder, **models)
    return re.sub(rf"^{re.escape(str(folder / 'pyproject.toml'))}:\d+:\d+: tool.harness.", "", str(caught.value))


CASES = {
    'provider = "openai"\nmodel = "gpt-4o"': "models.a: `openai` needs a `key`, such as ${env:OPENAI_API_KEY}",
    'provider = "anthropic"\nmodel = "c"': "models.a: `anthropic` needs a `key`, such as ${env:ANTHROPIC_API_KEY}",
    'provider = "openai-compatible"\nmodel = "q"': (
        "models.a: `openai-compatible` needs the address of its API in `base_url`"
    ),
    'provider = "openai"\nkey = "${env:K}"': "models.a: the key `model` is missing",
    f'{GOOD}fallback = ["b"]': "models: a.fallback: there is no model `b` (known: a)",
    f'{GOOD}fallback = ["a"]': "models: a.fallback leads in a circle: a -> a",
    f"{GOOD}limits = {{ first_tokn = 3 }}": "models.a.limits: unknown key `first_tokn` (did you mean `first_token`?)",
    f"{GOOD}limits = {{ total = 0 }}": "models.a.limits.total: Input should be greater than 0 (found: 0)",
    f"{GOOD}stream = false\nlimits = {{ idle = 3 }}": (
        "models.a: `first_token` and `idle` of `limits` need `stream = true`"
    ),
    f'{GOOD}base_url = "http://me:secret@x/v1"': (
        "models.a.base_url: must be an address such as http://localhost:8080/v1, without a login, a query or a fragment"
    ),
    'provider = "anthropic"\nmodel = "c"\nkey = "${env:K}"\napi = "responses"': (
        'models.a: `api = "responses"` belongs to OpenAI: Anthropic has only one API'
    ),
    f"{GOOD}price = {{ input = 1 }}": "models.a.price: the key `output` is missing",
}


@pytest.mark.parametrize("body", CASES)
def test_a_bad_table_is_refused_with_its_place(tmp_path: Path, body: str) -> None:
    assert refusal(tmp_path, a=body) == CASES[body]


def test_a_key_in_the_file_is_refused_and_not_shown(tmp_path: Path) -> None:
    told = refusal(tmp_path, a='provider = "openai"\nmodel = "gpt-4o"\nkey = "sk-planted-secret"\nfallbak = []')
    assert "models.a.key: must be a reference such as ${env:OPENAI_API_KEY}" in told
    assert "sk-planted-secret" not in told


def test_a_circle_over_several_models_is_named(tmp_path: Path) -> None:
    told = refusal(tmp_path, a=f'{GOOD}fallback = ["b"]', b=f'{GOOD}fallback = ["c"]', c=f'{GOOD}fallback = ["a"]')
    assert told == "models: a.fallback leads in a circle: a -> b -> c -> a"


def test_fallbacks_are_asked_in_turn_each_once(tmp_path: Path) -> None:
    settings = loaded(tmp_path, a=f'{GOOD}fallback = ["b", "c"]', b=f'{GOOD}fallback = ["d"]', c=f'{GOOD}fallback = ["d"]', d=GOOD)  # fmt: skip  # noqa: E501
    assert fallbacks_of(settings.models, "a") == ("b", "d", "c")


def test_the_keys_of_the_environment_are_secrets_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123456789")
    settings = loaded(tmp_path, a=GOOD)
    assert list(keys(settings.models, {"PLANTED_KEY": "x"})) == ["x"]
    assert Redactor.of(settings).text("it said sk-planted-0123456789") == "it said [redacted]"


def test_the_circuit_has_the_thresholds_of_its_model(tmp_path: Path) -> None:
    body = (
        f"{GOOD}breaker = {{ failure_threshold = 2, success_threshold = 3, reset_seconds = 7, volume_threshold = 4 }}"
    )
    model = loaded(tmp_path, a=body).models["a"]
    assert thresholds_of(model) == BreakerSettings(2, 3, 7, 4, probe_seconds=61)
