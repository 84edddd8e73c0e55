"""Generates docs/settings.md, with every key of `[tool.harness]`, from the models.

Run as `python -m tools.docs.settings_page docs/settings.md`, in the folder of the project.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.model.settings import Settings
from harness.pytest_plugin.options import TASK_OPTIONS
from tools.docs.key_type import described_type

HEAD = """\
# Settings

<!-- This page is generated: python -m tools.docs.settings_page docs/settings.md -->

All settings are in `pyproject.toml` under `[tool.harness]`, in the folder that pytest uses as the project's root. An
unknown key, or a value of another type, is an error. Paths are relative to that folder. An [option](options.md) in the
row of a key overrides it, and says what it means; an environment variable overrides the file.
[own-site.md](own-site.md) shows the tables in use.

| environment variable | what it sets |
|---|---|
| `HARNESS_BROWSER_EXECUTABLE` | `browser.executable` |
| `HARNESS_BROWSER_ENDPOINT` | `browser_endpoint`, separated by commas |
| `HARNESS_PORT_<SERVICE>` | the port of a service, as `--task-port SERVICE=PORT` does |
| `HARNESS_SERVE_PORT` | `serve.port`, as `harness serve --port` does |
| `RESILIENCE_ENABLED` | `false` turns recovery off, as `recovery = false` does, and retries of models too |
"""
TABLES = {
    "services": "[tool.harness.services.NAME]",
    "channels": "[tool.harness.channels.NAME]",
    "memory": "[tool.harness.memory]",
    "logins": "[tool.harness.logins.NAME]",
    "defaults": "[tool.harness.defaults]",
    "browser": "[tool.harness.browser]",
    "browser.profiles": "[tool.harness.browser.profiles.NAME]",
    "browser.geolocation": "[tool.harness.browser.geolocation]",
    "browser.http_credentials": "[tool.harness.browser.http_credentials]",
    "breaker": "[tool.harness.breaker]",
    "agents": "[tool.harness.agents.NAME]",
    "agents.policy": "[tool.harness.agents.NAME.policy]",
    "agents.breaker": "[tool.harness.agents.NAME.breaker]",
    "cassettes": "[tool.harness.cassettes]",
    "models": "[tool.harness.models.NAME]",
    "models.limits": "[tool.harness.models.NAME.limits]",
    "models.retry": "[tool.harness.models.NAME.retry]",
    "models.breaker": "[tool.harness.models.NAME.breaker]",
    "models.pace": "[tool.harness.models.NAME.pace]",
    "models.price": "[tool.harness.models.NAME.price]",
    "tools": "[tool.harness.tools.NAME]",
    "tools.breaker": "[tool.harness.tools.NAME.breaker]",
    "telemetry": "[tool.harness.telemetry]",
    "serve": "[tool.harness.serve]",
}
"""Key -> the heading of its table."""
ALIKE = {"browser.profiles": "browser", "agents.breaker": "breaker", "tools.breaker": "breaker"}
"""Table -> another one whose keys it may have; it stands in for those that it does not set."""
DEFAULTS = "any key of a task file, except `task_id`, `steps` and `parametrize`"
COLUMNS = "| key | meaning |\n|---|---|"

Schema = Mapping[str, Any]


def page() -> str:
    """The whole document as Markdown."""
    schema = Settings.model_json_schema()
    definitions, top = schema["$defs"], schema["properties"]
    parts = [HEAD, _section("[tool.harness]", "", {key: each for key, each in top.items() if key != "root"})]
    for key, title in TABLES.items():
        model = definitions[_model_of(key, top, definitions)]
        keys = {
            name: each
            for name, each in model["properties"].items()
            if key != "defaults" or name not in ("values", "added")
        }
        section = _section(title, f"{key}.", keys, model.get("required", ()))
        parts.append(_same_keys(title, keys, TABLES[ALIKE[key]]) if key in ALIKE else section)
    return "\n".join(parts)


def _model_of(path: str, keys: Schema, definitions: Schema) -> str:
    """The model of the table at a path, such as `browser.profiles`."""
    first, _, rest = path.partition(".")
    model = _table(keys[first])
    return _model_of(rest, definitions[model]["properties"], definitions) if rest else model


def _section(title: str, prefix: str, keys: Schema, required: Any = ()) -> str:
    rows = "\n".join(_row(prefix, key, each, key in required) for key, each in keys.items())
    told = "As in a task file. Mappings such as `error_recovery` are merged; `{add = [...]}` adds to a list."
    more = f"\n| {DEFAULTS} | {told} |"
    return f"## `{title}`\n\n{COLUMNS}\n{rows}{more if prefix == 'defaults.' else ''}\n"


def _same_keys(title: str, keys: Schema, other: str) -> str:
    names = ", ".join(f"`{key}`" for key in keys)
    return f"## `{title}`\n\n{names}: as in [`{other}`](#{_anchor(other)}), whose values hold otherwise.\n"


def _row(prefix: str, key: str, schema: Schema, required: bool) -> str:
    """`| key | What it is. (number 0 to 300, default `30`) |`."""
    path = f"{prefix}{key}"
    facts = (_type(schema, path), "**required**" if required else _default(schema))
    cells = (schema.get("description", ""), *_options(path, schema), f"({', '.join(filter(None, facts))})")
    said = " ".join(filter(None, cells)).replace("|", "\\|")
    return f"| `{key}` | {said} |"


def _type(schema: Schema, key: str) -> str:
    """The type in words; `key` is the path of the setting."""
    if key not in TABLES or not _table(schema):
        return described_type(schema)
    anchor = _anchor(TABLES[key])
    return f"table, or list of tables: [below](#{anchor})" if "items" in schema else f"[table](#{anchor})"


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w-]", "", title.lower())


def _table(schema: Schema) -> str:
    """The name of the model if a key is a table; empty for plain values."""
    name = json.dumps({key: value for key, value in schema.items() if key != "default"})
    found = re.search(r"#/\$defs/(\w+)", name)
    return found[1] if found else ""


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default is None or default in ("", []) or isinstance(default, dict):
        return ""
    return f"default `{default:g}`" if isinstance(default, float) else f"default `{json.dumps(default)}`"


def _options(setting: str, schema: Schema) -> Iterator[str]:
    """The option that overrides the setting and says what it means; a flag stands for one of its values."""
    for option in TASK_OPTIONS:
        if option.setting == setting:
            value = "As" if option.takes_value else f"`{json.dumps(not schema['default'])}`: as"
            yield f"{value} [`{option.name}`](options.md)."


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
