"""The files that Allure expects next to the results: environment, executor, `allurerc.mjs`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.recovery.families import Suspect
from harness.reporting.allure.categories import grouped_codes
from harness.reporting.allure.labels import RUN_LABEL
from harness.reporting.files import write_json, write_text

RC = "allurerc.mjs"
OURS = "// Written by pytest-taskspec."
AFTER_FAULT = "after_fault"
"""The label of a failure that follows an injected fault."""
_NOISE = ["host", "thread", "framework", "language", "package", "parentSuite", "suite", RUN_LABEL]
"""Labels that say nothing about a task."""
_INJECTED = "Injected faults"
"""The group of failures that follow an injected fault; it comes first, since they are no defects."""
SUSPECTS = {each: f"Suspect: {each}" for each in Suspect}
"""Where to look first -> its category, after the groups by code."""


def write_allure_files(results: Path, environment: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Write the files. `environment` is shown in the report; a CI system identifies itself in `environ`."""
    write_text(results / "environment.properties", environment_properties(environment))
    write_text(results / RC, allurerc())
    if executor := executor_of(environ):
        write_json(results / "executor.json", executor)


def environment_properties(environment: Mapping[str, str]) -> str:
    """The text of Java properties: one `key=value` a line, in ASCII."""
    return "".join(
        f"{_escape_property(key, ' =:#!')}={_escape_property(value, '')}\n" for key, value in environment.items()
    )


def _escape_property(text: str, special: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "")
    escaped = "".join("\\" + letter if letter in special else letter for letter in escaped)
    return "".join(letter if ord(letter) < 128 else _unicode(letter) for letter in escaped)


def _unicode(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def allurerc(*, single_file: bool = False, history: Path | None = None) -> str:
    """Allure's configuration: categories by labels, groups by site and family. `history`: the file of earlier runs."""
    groups = {name: f"code: /^(?:{'|'.join(codes)})$/" for name, codes in grouped_codes().items()}
    groups |= {name: f"suspect: /^{suspect}$/" for suspect, name in SUSPECTS.items()}
    matched = ",\n".join(
        f"    {{ name: {json.dumps(name)}, matchers: [{{ labels: {{ {labels} }} }}] }}"
        for name, labels in {_INJECTED: f"{AFTER_FAULT}: /^true$/", **groups}.items()
    )
    options = 'reportLanguage: "en", groupBy: ["epic", "feature"]' + (", singleFile: true" if single_file else "")
    kept = f"  historyPath: {json.dumps(str(history))},\n" if history else ""
    return (
        f"{OURS} The Allure 3 configuration of these results.\n"
        "export default {\n"
        '  name: "Tasks",\n'
        f"{kept}"
        f"  hideLabels: {json.dumps(_NOISE)},\n"
        f"  categories: [\n{matched},\n  ],\n"
        f"  plugins: {{ awesome: {{ options: {{ {options} }} }} }},\n"
        "};\n"
    )


def executor_of(environ: Mapping[str, str]) -> dict[str, object]:
    """The executor.json of the CI system that this runs on; empty on a developer's machine."""
    if "GITHUB_ACTIONS" in environ:
        base = f"{environ.get('GITHUB_SERVER_URL', '')}/{environ.get('GITHUB_REPOSITORY', '')}"
        url = f"{base}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
        return _executor(
            "GitHub Actions", "github", environ.get("GITHUB_WORKFLOW"), environ.get("GITHUB_RUN_NUMBER"), url
        )
    if "GITLAB_CI" in environ:
        return _executor(
            "GitLab CI", "gitlab", environ.get("CI_JOB_NAME"), environ.get("CI_PIPELINE_IID"), environ.get("CI_JOB_URL")
        )
    if "JENKINS_URL" in environ:
        return _executor(
            "Jenkins", "jenkins", environ.get("JOB_NAME"), environ.get("BUILD_NUMBER"), environ.get("BUILD_URL")
        )
    return {}


def _executor(name: str, kind: str, build: str | None, number: str | None, url: str | None) -> dict[str, object]:
    found: dict[str, object] = {
        "name": name,
        "type": kind,
        "buildName": f"{build or name} #{number}" if number else build or name,
    }
    if number and number.isdecimal():
        found["buildOrder"] = int(number)
    return found | ({"buildUrl": url} if url else {})
