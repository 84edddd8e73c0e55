"""`browser:`: what a file may say of its browser context, and what comes of several layers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright

from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.runner.compile import compile_plan
from harness.spec.context import ContextOptions, devices, merged, playwright_options
from harness.spec.problems import SpecError
from harness.spec.task import TaskSpec
from tests.unit.spec.files import loaded, problems, task, write

IPHONE = {"viewport": {"width": 390, "height": 664}, "user_agent": "iPhone", "default_browser_type": "webkit"}


def options(**fields: Any) -> ContextOptions:
    return ContextOptions.model_validate(fields)


def context_of(settings: Settings, environ: dict[str, str] | None = None, **spec: Any) -> ContextOptions:
    found = TaskSpec.model_validate(task(**spec))
    return compile_plan(found, settings=settings, run_id="r", environ=environ or {}).context


def settings(**browser: Any) -> Settings:
    return Settings.model_validate({"browser": browser})


def test_a_later_layer_overrides_an_earlier_one() -> None:
    found = merged([options(locale="de-DE", offline=True), options(locale="fr-FR")])
    assert found.declared == {"locale": "fr-FR", "offline": True}


def test_a_device_replaces_the_size_and_agent_of_earlier_layers_and_not_of_its_own() -> None:
    earlier = options(viewport=[1, 2], user_agent="x", locale="de-DE")
    assert merged([earlier, options(device="iPhone 13")]).declared == {"locale": "de-DE", "device": "iPhone 13"}
    own = options(device="iPhone 13", viewport=[3, 4])
    assert merged([earlier, own]).declared == {"locale": "de-DE", "device": "iPhone 13", "viewport": (3, 4)}


def test_a_key_without_a_value_takes_back_what_was_said() -> None:
    assert merged([options(device="iPhone 13"), options(device=None)]).declared == {}


def test_playwright_s_names_and_forms() -> None:
    found = options(
        device="iPhone 13",
        timezone="Europe/Berlin",
        extra_headers={"X-A": "1"},
        java_script=False,
        permissions=["notifications", "geolocation"],
        geolocation={"latitude": 1, "longitude": 2},
        http_credentials={"username": "ann", "password": "pw"},
    )
    assert playwright_options(found, IPHONE) == {
        "viewport": {"width": 390, "height": 664},
        "user_agent": "iPhone",
        "timezone_id": "Europe/Berlin",
        "extra_http_headers": {"X-A": "1"},
        "java_script_enabled": False,
        "permissions": ["notifications", "geolocation"],
        "geolocation": {"latitude": 1, "longitude": 2, "accuracy": 0},
        "http_credentials": {"username": "ann", "password": "pw", "send": "unauthorized"},
    }
    assert playwright_options(options(viewport={"width": 5, "height": 6}), {})["viewport"] == {"width": 5, "height": 6}


@pytest.mark.parametrize(
    ("declared", "granted"),
    [
        ({}, ["geolocation"]),
        ({"permissions": None}, ["geolocation"]),
        ({"permissions": []}, []),
        ({"permissions": ["notifications"]}, ["notifications"]),
    ],
)
def test_a_position_permits_itself_unless_permissions_are_declared(
    declared: dict[str, Any], granted: list[str]
) -> None:
    found = options(geolocation={"latitude": 1, "longitude": 2}, **declared)
    assert playwright_options(found, {})["permissions"] == granted


@pytest.mark.parametrize(
    ("said", "place", "message"),
    [
        ({"device": "iPhone 133"}, '"device"', "Playwright has no device 'iPhone 133': did you mean"),
        ({"timezone": "Europe/Berlim"}, '"timezone"', "there is no time zone 'Europe/Berlim': did you mean"),
        ({"permissions": ["geolocatoin"]}, "geolocatoin", "Chromium has no permission 'geolocatoin': did you mean"),
        ({"locale": "German!"}, '"locale"', "'German!' is not a locale"),
        ({"locale": "english"}, '"locale"', "'english' is not a locale"),
        ({"locale": "de_DE_xy"}, '"locale"', "'de_DE_xy' is not a locale"),
        ({"user_agent": "a\nb"}, '"user_agent"', "a User-Agent has no line breaks"),
        ({"extra_headers": {"Host": "x.test"}}, '"extra_headers"', "Chromium sets the header Host itself"),
        ({"extra_headers": {"x": "a\0"}}, '"extra_headers"', "the value of x has a control character"),
        ({"http_credentials": {"username": "a", "password": "b", "origin": "shop.test"}}, '"origin"', "not an origin"),
        ({"http_credentials": {"username": "a", "password": "b", "origin": "http://x/"}}, '"origin"', "not an origin"),
        ({"http_credentials": {"username": "a", "password": "b", "origin": "http://x:80"}}, '"origin"', "not an or"),
        ({"viewport": [0, 5]}, " 0,", "out of range"),
        ({"viewports": [1, 5]}, '"viewports"', "unknown key `viewports`"),
        ({"geolocation": {"latitude": 91, "longitude": 0}}, '"latitude"', "out of range"),
        ({"geolocation": {"lat": 1, "latitude": 1, "longitude": 0}}, '"lat"', "unknown key `lat`"),
        ({"extra_headers": {"User-Agent": "x"}}, '"extra_headers"', "`user_agent` sets this header"),
        ({"extra_headers": {"a b": "x"}}, '"extra_headers"', "is not the name of a header"),
        ({"color_scheme": "drak"}, '"color_scheme"', "not a known word"),
        ({"http_credentials": {"username": "x"}}, '"http_credentials"', "the key `password` is missing"),
        ({"locale": "${memory.x}"}, '"locale"', "memory can be used in steps and criteria only"),
    ],
)
def test_a_bad_value_is_told_with_its_place(tmp_path: Path, said: dict[str, Any], place: str, message: str) -> None:
    path = write(tmp_path, task(browser=said))
    (found,) = problems(path)
    assert message in found.message
    assert found.line is not None
    assert place in path.read_text("utf-8").splitlines()[found.line - 1]


@pytest.mark.parametrize("name", ["de", "de_DE", "zh-Hant-TW", "es-419", "ca-ES-valencia", "de-DE-u-co-phonebk"])
def test_locales_that_chromium_knows_are_accepted(name: str) -> None:
    assert options(locale=name).locale == name


def test_the_task_overrides_the_profile_and_that_the_settings() -> None:
    browser = settings(locale="de-DE", color_scheme="dark", profiles={"tokyo": {"timezone": "Asia/Tokyo"}})
    assert context_of(browser, browser={"locale": "fr-FR"}).declared == {"locale": "fr-FR", "color_scheme": "dark"}
    spec = TaskSpec.model_validate(task()).with_profile("tokyo")
    assert compile_plan(spec, settings=browser, run_id="r").context.timezone == "Asia/Tokyo"
    with pytest.raises(SpecError, match="has no profile `tokyo`"):
        compile_plan(spec, settings=Settings(), run_id="r")


def test_references_are_filled_in_and_checked_then() -> None:
    assert context_of(Settings(), browser={"locale": "${inputs.l}"}, inputs={"l": "it-IT"}).locale == "it-IT"
    with pytest.raises(SpecError, match="Playwright has no device 'Newton', such as `iPhone 13`, once its references"):
        context_of(Settings(), browser={"device": "${inputs.l}"}, inputs={"l": "Newton"})


def test_what_comes_from_the_environment_and_every_password_is_secret() -> None:
    browser = settings(
        extra_headers={"X-Key": "${env:KEY}"}, http_credentials={"username": "ann", "password": "pass-1"}
    )
    plan = compile_plan(TaskSpec.model_validate(task()), settings=browser, run_id="r", environ={"KEY": "key-1"})
    assert plan.context.extra_headers == {"X-Key": "key-1"}
    assert set(plan.secrets) == {"key-1", "pass-1"}
    with pytest.raises(SpecError, match="the environment variable is not set"):
        compile_plan(TaskSpec.model_validate(task()), settings=browser, run_id="r", environ={})


def test_a_task_inside_another_one_cannot_have_a_context_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    inner = loaded(tmp_path / "inner", task(task_id="INNER", browser={"locale": "de-DE"}))
    plan = {"enabled": True, "alternative_task_id": "INNER"}
    outer = TaskSpec.model_validate(task(fallback_plan=plan))
    with pytest.raises(SpecError, match="`INNER` declares a `browser` of its own"):
        compile_plan(outer, settings=Settings(), run_id="r", find=lambda _: inner)
    same = TaskSpec.model_validate(task(fallback_plan=plan, browser={"locale": "de-DE"}))
    assert compile_plan(same, settings=Settings(), run_id="r", find=lambda _: inner).alternative is not None


def test_settings_are_checked_with_their_key(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.harness.browser.profiles."a/b"]\ndevice = "iPhone 13"\n', "utf-8")
    with pytest.raises(SettingsError, match="the name of a profile has letters"):
        load_settings(tmp_path)
    file.write_text('[tool.harness.browser.profiles.a]\ndevice = "Newton"\n', "utf-8")
    with pytest.raises(SettingsError, match=r"browser\.profiles\.a\.device: Playwright has no device 'Newton'"):
        load_settings(tmp_path)


def test_a_device_of_the_command_line_replaces_the_size_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.harness.browser]\nviewport = [800, 600]\noffline = true\n", "utf-8")
    found = load_settings(tmp_path, browser={"device": "iPhone 13"}).browser
    assert found.declared == {"device": "iPhone 13", "offline": True}


def test_the_devices_are_those_of_playwright() -> None:
    async def registry() -> list[str]:
        async with async_playwright() as playwright:
            return list(playwright.devices)

    missing = set(devices()) - set(asyncio.run(registry()))
    assert missing == set(), "Playwright has removed devices"
