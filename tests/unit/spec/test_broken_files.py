"""Broken files, one by one: each is refused with file:line:column and words that help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.spec.checks import TAKEN
from tests.unit.spec.files import HEAD, problems, write

TRAILING_COMMA = (
    ("1:16", ("Illegal trailing comma", "drop the comma"))
    if sys.version_info >= (3, 13)
    else ("2:1", ("not valid JSON", "no comma before"))
)


class Broken(NamedTuple):
    """A file's text, and what must be said of it."""

    text: str | bytes
    place: str
    words: tuple[str, ...]
    name: str = "t.task.yaml"


def after(lines: str) -> str:
    return HEAD + lines


def steps(line: str) -> str:
    """The step is number 0, in line 3."""
    return f"task_id: T-1\nsteps:\n  - {line}\n"


DEEP = "a: " + "[" * 60 + "]" * 60 + "\n"
BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
)

BROKEN = {
    # The file itself
    "empty": Broken("", "1:1", ("the file is empty",)),
    "only-comments": Broken("# nothing\n", "1:1", ("the file is empty",)),
    "not-utf-8": Broken(b"task_id: a\ngoal: caf\xe9\n", "2:10", ("not UTF-8", "0xe9", "save it as UTF-8")),
    "utf-16": Broken("task_id: a\n".encode("utf-16"), "1:1", ("not UTF-8", "UTF-16")),
    "huge": Broken(b"# " + b"x" * 1024 * 1024, "1:1", ("too large", "at most 1024 KiB")),
    "control-character": Broken("task_id: a\x01b\n", "1:11", ("not valid YAML",)),
    "list-at-top": Broken("- a\n- b\n", "1:1", ("not a mapping", "found: a list")),
    "text-at-top": Broken('"hello"', "1:1", ("not a mapping", "found: text 'hello'"), "t.task.json"),
    # YAML
    "not-yaml": Broken("task_id: [a\nsteps: 1\n", "2:6", ("not valid YAML",)),
    "unclosed-quote": Broken('task_id: "a\n', "2:1", ("not valid YAML", "quoted scalar")),
    "tab": Broken("task_id: a\nsteps:\n\t- act: open\n", "3:1", ("not valid YAML", "spaces, not with tabs")),
    "colon-in-text": Broken("task_id: a\ngoal: buy: now\n", "2:10", ("not valid YAML", "in quotes")),
    "reference-in-braces": Broken(
        steps("{act: type, selector: a, value: to ${inputs.nam}/x , note: b}"),
        "3:37",
        ("not valid YAML", 'needs quotes: write "to ${inputs.nam}/x"'),
    ),
    "reference-in-brackets": Broken(after("tags: [${env:A}, b]\n"), "5:8", ('write "${env:A}"',)),
    "at-sign": Broken("task_id: a\ngoal: @me\n", "2:7", ("cannot start any token", "in quotes")),
    "several-documents": Broken("task_id: a\n---\ntask_id: b\n", "2:1", ("several YAML documents",)),
    "python-tag": Broken("task_id: !!python/object/apply:os.system [id]\n", "1:10", ("tag", "is not allowed")),
    "binary-tag": Broken("task_id: !!binary aGk=\n", "1:10", ("tag", "is not allowed")),
    "merge-key": Broken(after("inputs: {<<: {a: 1}}\n"), "5:10", ("merge keys", "not supported")),
    "alias-bomb": Broken(BOMB, "5:29", ("more than 100000 values", "aliases")),
    "alias-in-itself": Broken("task_id: a\ninputs: &x {y: *x}\n", "2:16", ("no anchor above it",)),
    "deep-yaml": Broken(DEEP, "1:53", ("nested more than 50 levels",)),
    "duplicate-key-yaml": Broken(after("goal: a\ngoal: b\n"), "6:1", ("`goal` appears twice",)),
    "list-as-key": Broken("task_id: a\n[b]: c\n", "2:1", ("a key must be a text",)),
    "number-too-large": Broken(after("seed: 1e999\n"), "5:7", ("the number is too large",)),
    # JSON
    "trailing-comma": Broken('{"task_id": "a",\n}', *TRAILING_COMMA, "t.task.json"),
    "json-comment": Broken('{\n  // no\n  "task_id": "a"}', "2:3", ("JSON has no comments",), "t.task.json"),
    "json-nan": Broken('{"task_id": "a", "seed": NaN}', "1:26", ("`NaN` is not JSON",), "t.task.json"),
    "json-long-number": Broken('{"seed": ' + "9" * 5000 + "}", "1:10", ("number is too large",), "t.task.json"),
    "json-surrogate": Broken(r'{"task_id": "\ud800"}', "1:1", ("surrogate",), "t.task.json"),
    "duplicate-key-json": Broken(
        '{"task_id": "a",\n "inputs": {"x": 1,\n  "x": 2}}', "3:3", ("`x` appears twice",), "t.task.json"
    ),
    "deep-json": Broken('{"a":' * 60 + "1" + "}" * 60, "1:251", ("nested more than 50 levels",), "t.task.json"),
    "very-deep-json": Broken("[" * 100_000 + "]" * 100_000, "1:51", ("nested more than 50 levels",), "t.task.json"),
    "many-values-json": Broken("[" + "1," * 100_001 + "1]", "1:200000", ("more than 100000 values",), "t.task.json"),
    # Types and keys
    "task_id-empty": Broken("task_id: ''\ngoal: a\nsteps: [{act: open, url: x}]\n", "1:10", ("task_id",)),
    "task_id-number": Broken("task_id: 5\nsteps: [{act: open, url: x}]\n", "1:10", ("expected: text", "in quotes")),
    "timeout-text": Broken(
        after("timeout: '300'\n"), "5:10", ("a whole number", "found: text '300'", "without quotes")
    ),
    "timeout-yes": Broken(after("priority: true\n"), "5:11", ("a whole number", "found: true")),
    "timeout-out-of-range": Broken(after("timeout: 9\n"), "5:10", ("out of range", "at least 10")),
    "step_timeout-out-of-range": Broken(after("step_timeout: 301\n"), "5:15", ("out of range", "at most 300")),
    "timeout-in-milliseconds": Broken(
        after("timeout: 30000\n"), "5:10", ("out of range", "seconds, not milliseconds: write 30")
    ),
    "step-timeout-in-milliseconds": Broken(
        steps("{act: click, selector: '#a', timeout: 10000}"), "3:43", ("seconds, not milliseconds: write 10",)
    ),
    "tags-text": Broken(after("tags: shop\n"), "5:7", ("expected: a list", "found: text 'shop'")),
    "inputs-list": Broken(after("inputs: [a]\n"), "5:9", ("expected: a mapping", "found: a list")),
    "misspelt-top-key": Broken(after("sucess_criteria: []\n"), "5:1", ("unknown key", "`success_criteria`?")),
    "another-tools-word": Broken(after("depends_on: [A]\n"), "5:1", ("`depends_on`", "write `dependencies`")),
    "separator-in-the-id": Broken(HEAD.replace("T-1", "A::1"), "1:10", ("must not hold `::`", "selected")),
    "misspelt-timeout": Broken(after("step_timout: 3\n"), "5:1", ("unknown key", "`step_timeout`?")),
    "misspelt-step-key": Broken(
        steps("{act: click, selector: '#a', optinal: true}"), "3:34", ("unknown key `optinal`", "`optional`?")
    ),
    "key-of-another-act": Broken(
        steps("{act: click, selector: '#a', url: x}"), "3:34", ("steps[0].url", "unknown key `url`")
    ),
    "misspelt-rule": Broken(after("error_recovery:\n  on_timout: abort\n"), "6:3", ("unknown key", "`on_timeout`?")),
    "misspelt-setting": Broken(
        after("error_recovery:\n  on_network_error: {max_retry: 1}\n"), "6:22", ("unknown key", "`max_retries`?")
    ),
    "misspelt-fallback-plan": Broken(after("fallback_plan: {enable: false}\n"), "5:17", ("`enabled`?",)),
    # Steps
    "steps-missing": Broken("task_id: a\n", "1:1", ("no steps: a task needs at least one",)),
    "steps-empty": Broken("task_id: a\nsteps: []\n", "2:1", ("no steps",)),
    "steps-mapping": Broken("task_id: a\nsteps: {act: open}\n", "2:8", ("expected: a list", "found: a mapping")),
    "step-text": Broken(steps("open"), "3:5", ("steps[0]", "expected: a mapping", "found: text 'open'")),
    "act-missing": Broken(steps("{selector: '#a'}"), "3:5", ("`act` is missing", "open, click")),
    "act-unknown": Broken(steps("{act: clik, selector: '#a'}"), "3:11", ("not a known act", "`click`?")),
    "act-of-playwright": Broken(steps("{act: goto, url: x}"), "3:11", ("write `open`, with the address as `url`",)),
    "act-of-selenium": Broken(steps("{act: send_keys, selector: a}"), "3:11", ("write `type`",)),
    "act-of-a-page": Broken(steps("{act: page.dblclick(), selector: a}"), "3:11", ("count: 2",)),
    "switch-nowhere": Broken(steps("{act: switch_page}"), "3:5", ("needs either `value`",)),
    "switch-twice": Broken(steps("{act: switch_page, value: 1, url: x}"), "3:5", ("needs either `value`",)),
    "dialog-pattern": Broken(steps("{act: dialog, message: {matches: '('}}"), "3:5", ("bad regular expression",)),
    "dialog-word": Broken(steps("{act: dialog, value: maybe}"), "3:26", ("expected: accept or dismiss",)),
    "dialog-dismissed": Broken(steps("{act: dialog, value: dismiss, text: x}"), "3:5", ("takes no `text`",)),
    "screenshot-nameless": Broken(steps("{act: screenshot}"), "3:5", ("`screenshot_id` is missing",)),
    "drag-nowhere": Broken(steps("{act: drag, selector: a}"), "3:5", ("needs either `value`",)),
    "option-index": Broken(steps("{act: select, selector: a, value: {index: -1}}"), "3:47", ("at least 0",)),
    "option-twice": Broken(
        steps("{act: select, selector: a, value: {label: x, index: 1}}"), "3:39", ("named by exactly one of",)
    ),
    "option-key": Broken(
        steps("{act: select, selector: a, value: {lable: x}}"), "3:40", ("value, label or index", "`label`?")
    ),
    "selector-missing": Broken(steps("{act: click}"), "3:5", ("steps[0].selector", "is missing")),
    "selector-comment": Broken("task_id: a\nsteps:\n- act: click\n  selector: #a\n", "4:12", ("`#` begins a comment",)),
    "selector-list": Broken(steps("{act: click, selector: [data-x]}"), "3:28", ("expected: text", "in quotes")),
    "value-list": Broken(steps("{act: type, selector: a, value: [1]}"), "3:37", ("text or a number", "a list [1]")),
    "option-number": Broken(steps("{act: select, selector: a, value: [a, 1]}"), "3:43", ("value[1]", "expected: text")),
    "wait-for-nothing": Broken(steps("{act: wait}"), "3:5", ("needs a `selector`, or a number of seconds",)),
    "wait-too-long": Broken(steps("{act: wait, value: 4000}"), "3:5", ("0 to 3600 seconds",)),
    "wait-in-milliseconds": Broken(steps("{act: wait, value: 5000}"), "3:5", ("seconds, not milliseconds: write 5",)),
    "assert-without-value": Broken(steps("{act: assert, selector: a}"), "3:5", ("needs the `value`",)),
    "assert-both-forms": Broken(steps("{act: assert, selector: a, expr: b}"), "3:5", ("either `selector`",)),
    "step-timeout-zero": Broken(steps("{act: open, url: x, timeout: 0}"), "3:34", ("more than 0",)),
    "url-scheme": Broken(steps("{act: open, url: 'file:///etc/passwd'}"), "3:22", ("`file:` are not allowed",)),
    "url-scheme-after-a-space": Broken(steps("{act: open, url: ' file:///'}"), "3:22", ("`file:` are not allowed",)),
    "url-javascript": Broken(steps("{act: open, url: 'javascript:alert(1)'}"), "3:22", ("`javascript:`",)),
    "url-without-scheme": Broken(steps("{act: open, url: 'localhost:80/'}"), "3:22", ("write http:// in front",)),
    "screenshot-escapes": Broken(
        steps("{act: open, url: x, screenshot_id: ../../x}"), "3:40", ("screenshot_id must not hold a path separator",)
    ),
    # Recovery
    "strategy-unknown": Broken(
        after("error_recovery: {on_timeout: abrt}\n"),
        "5:30",
        ("not a known strategy", "`abort`?", "capture_state_and_abort, abort, retry_from_checkpoint or skip_step"),
    ),
    "strategy-of-another-rule": Broken(
        after("error_recovery: {on_network_error: {strategy: skip_step}}\n"), "5:47", ("retry, exponential_backoff or",)
    ),
    "negative-retries": Broken(
        after("error_recovery: {on_network_error: {max_retries: -1}}\n"),
        "5:50",
        ("at least 0", "found: a whole number -1"),
    ),
    "fallbacks-text": Broken(
        after("error_recovery: {on_element_not_found: {fallback_selectors: {'#a': b}}}\n"),
        "5:68",
        ("expected: a list", "found: text 'b'"),
    ),
    "checkpoint-negative": Broken(after("checkpoints: [-1]\n"), "5:15", ("checkpoints[0]", "at least 0")),
    "checkpoint-mapping": Broken(after("checkpoints: [{id: a}]\n"), "5:15", ("expected: a whole number",)),
    "fallback-plan-key": Broken(
        after("fallback_plan: {enabled: true, alternative_task: X}\n"), "5:32", ("`alternative_task_id`?",)
    ),
    "binding-list": Broken(after("state_bindings: [a]\n"), "5:17", ("expected: a mapping",)),
    "binding-star": Broken(after("state_bindings: {a: env.x.*.y}\n"), "5:21", ("takes no `*`",)),
    "binding-pathless": Broken(after("state_bindings: {a: env}\n"), "5:21", ("is written `channel.path`",)),
    "repair-empty": Broken(after("repairs: [{}]\n"), "5:11", ("at least one of `memory`",)),
    "repair-key": Broken(after("repairs: [{memroy: {a: 1}}]\n"), "5:12", ("did you mean `memory`?",)),
    "binding-channel": Broken(after("state_bindings: {a: evn.b}\n"), "5:21", ("unknown channel `evn`", "`env`?")),
    "repair-of-nothing": Broken(
        after(
            "preconditions: [\"mem('a') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
            "repairs: [{precondition: \"mem('b') == 1\", memory: {a: 1}}]\n"
        ),
        "7:26",
        ("not a precondition of the task", "did you mean `mem('a') == 1`?"),
    ),
    "repair-criterion": Broken(
        after(
            "preconditions: [\"mem('a') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
            "repairs: [{steps: [{act: open, url: /, done_when: \"json('evn', 'x') == 1\"}]}]\n"
        ),
        "7:51",
        ("unknown channel `evn`", "did you mean `env`?"),
    ),
    "repair-act": Broken(
        after(
            "preconditions: [\"mem('a') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
            "repairs: [{steps: [{act: clik, selector: a}]}]\n"
        ),
        "7:26",
        ("repairs[0].steps[0].act", "did you mean `click`?"),
    ),
    "repair-step-key": Broken(
        after(
            "preconditions: [\"mem('a') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
            "repairs: [{steps: [{act: click, selector: a, tiemout: 3}]}]\n"
        ),
        "7:46",
        ("unknown key `tiemout`", "did you mean `timeout`?"),
    ),
    "relaxed-criterion": Broken(
        after("fallback_plan: {enabled: true, relaxed_success_criteria: ['exists(']}\n"), "5:67", ("at character 8",)
    ),
    "score-criterion": Broken(
        after("scoring_checkpoints: [{id: a, assertion: \"mem('a') = 1\"}]\n"), "5:52", ("at character",)
    ),
    "score-twice": Broken(
        after("scoring_checkpoints: [{id: a, assertion: 'true == true'}, {id: a, assertion: 'true == true'}]\n"),
        "5:64",
        ("`a` is already the id of part 0",),
    ),
    "score-depends": Broken(
        after("scoring_checkpoints: [{id: one, assertion: 'true == true', depends_on: [oen]}]\n"),
        "5:73",
        ("no earlier part has the id `oen`",),
    ),
    "repair-upload": Broken(
        after(
            "preconditions: [\"mem('a') == 1\"]\nerror_recovery: {on_precondition_fail: attempt_repair}\n"
            "repairs: [{steps: [{act: upload, selector: a, value: ../x}]}]\n"
        ),
        "7:54",
        ("repairs[0].steps[0].value", "leaves the task's folder"),
    ),
    "episode-reference": Broken(after("episode_id: e-${inputs.x}\n"), "5:13", ("`episode_id` takes no references",)),
    "artifact-reference": Broken(after("artifacts: ['${inputs.x}.txt']\n"), "5:13", ("takes no references",)),
    "budget-key": Broken(after("budget: {steps: 5}\n"), "5:10", ("`max_steps`?",)),
    "budget-zero": Broken(after("budget: {max_steps: 0}\n"), "5:21", ("at least 1",)),
    "no-cases": Broken(after("parametrize: []\n"), "5:1", ("no cases",)),
    "cases-of-nothing": Broken(after("parametrize: [{id: a}]\n"), "5:15", ("the case has no values",)),
    "case-unlike": Broken(
        after("goal: ${param.a}${param.b}\nparametrize:\n  - {a: 1, b: 2}\n  - {a: 1}\n"),
        "8:5",
        ("the case has no `b`", "expected: a or b"),
    ),
    "case-id-twice": Broken(
        after("goal: ${param.a}\nparametrize: [{id: x, a: 1}, {id: X, a: 2}]\n"),
        "6:35",
        ("`X` is already the id of case 0",),
    ),
    "case-id-number": Broken(
        after("goal: ${param.a}\nparametrize: [{id: 1, a: 1}]\n"), "6:20", ("is a text", "put it in quotes")
    ),
    "case-id-unsafe": Broken(
        after("goal: ${param.a}\nparametrize: [{id: a/b, a: 1}]\n"), "6:20", ("not an id for a case", "'a/b'")
    ),
    "param-without-values": Broken(after("parametrize: {a: []}\n"), "5:18", ("no values",)),
    "param-called-id": Broken(after("parametrize: {id: [1]}\n"), "5:15", ("cannot be called `id`",)),
    "param-name": Broken(
        after("goal: '${param.a b}'\nparametrize: {a b: [1]}\n"), "6:15", ("not a name for a parameter",)
    ),
    "too-many-cases": Broken(
        after(f"goal: ${{param.a}}${{param.b}}\nparametrize: {{a: [{'1,' * 40}], b: [{'1,' * 40}]}}\n"),
        "6:14",
        ("at most 1000", "1600"),
    ),
    "parametrize-of-another-type": Broken(after("parametrize: {a: 5}\n"), "5:18", ("expected: a list", "number 5")),
    "parametrize-text": Broken(after("parametrize: abc\n"), "5:14", ("a mapping or a list", "text 'abc'")),
    "budget-of-another-type": Broken(after("budget: 3\n"), "5:9", ("expected: a mapping",)),
    "fallback-plan-text": Broken(after("fallback_plan: B2\n"), "5:16", ("expected: a mapping",)),
    "inconsistency-misspelt": Broken(
        after("error_recovery: {on_state_inconsistency: {strategy: trust_en}}\n"), "5:53", ("`trust_env`?",)
    ),
    # Marks
    "tag-underscore": Broken(after("tags: [shop, _x]\n"), "5:14", ("tags[1]", "not a tag", "found: text '_x'")),
    "tag-colon": Broken(after("tags: ['x:y']\n"), "5:8", ("not a tag", "a letter, then letters, digits")),
    "tag-space": Broken(after("tags:\n- a b\n"), "6:3", ("not a tag",)),
    "tag-newline": Broken(after('tags: ["a\\n"]\n'), "5:8", ("not a tag",)),
    "tag-empty": Broken(after("tags: ['']\n"), "5:8", ("not a tag",)),
    **{
        f"tag-{tag}": Broken(after(f"tags: [{tag}]\n"), "5:8", (f"uses the tag `{tag}` as a mark",))
        for tag in (*sorted(TAKEN), "allure_label", "allure_x")
    },
    "family-space": Broken(after("family: a b\n"), "5:9", ("not a family", "found: text 'a b'")),
    "family-empty": Broken(after("family: ''\n"), "5:9", ("not a family",)),
    # Acts that take no `force`
    **{
        f"force-{act}": Broken(
            steps(f"{{act: {act}, force: true, selector: a{more}}}"), f"3:{13 + len(act)}", ("unknown key `force`",)
        )
        for act, more in {"submit": "", "press": ", value: Enter", "scroll": "", "wait": ""}.items()
    },
    "force-upload": Broken(
        steps("{act: upload, force: true, selector: a, value: '${memory.f}'}"), "3:19", ("`force`",)
    ),
    # Criteria
    "bad-criterion": Broken(
        after("success_criteria:\n  - \"text('#a') = 'b'\"\n"), "6:17", ("at character 12", "^", "success_criteria[0]")
    ),
    "bad-criterion-plain": Broken(after("preconditions:\n- mem('a') == 1 )\n"), "6:17", ("preconditions[0]",)),
    "bad-criterion-single-quotes": Broken(
        after("success_criteria: ['text(''#a'') == b']\n"), "5:37", ("success_criteria[0]",)
    ),
    "bad-criterion-block": Broken(
        after("success_criteria:\n  - |\n    text('#a') == 'b'\n    && nope('x')\n"), "8:8", ("nope",)
    ),
    "bad-criterion-json": Broken(
        '{"task_id": "a", "steps": [{"act": "open", "url": "x"}],\n "success_criteria": ["text(\\"#a\\") = 1"]}',
        "2:37",
        ("at character 12",),
        "t.task.json",
    ),
    "bad-done_when": Broken(steps("{act: click, selector: a, done_when: nope('x')}"), "3:42", ("nope",)),
    "bad-remember": Broken(steps("{act: wait, value: 1, remember: {a.b: text(}}"), "3:48", ("remember['a.b']",)),
    "bad-expr": Broken(steps("{act: assert, expr: ''}"), "3:26", ("steps[0].expr", "empty")),
    "bad-call-as-value": Broken(steps("{act: assert, selector: a, value: mem(x)}"), "3:43", ("steps[0].value",)),
    "bad-when": Broken(
        after("scoring_checkpoints:\n- {id: a, assertion: url() == 'x', when: 'nope'}\n"), "6:43", (".when",)
    ),
    "bad-regex": Broken(after("success_criteria: [\"text('#a') matches '(['\"]\n"), "5:43", ("regular expression",)),
    "unknown-channel": Broken(
        after("success_criteria: [\"json('enw', 'a') == 1\"]\n"), "5:20", ("unknown channel `enw`", "`env`?")
    ),
    # References
    "namespace-unknown": Broken(steps("{act: open, url: 'x/${input.a}'}"), "3:25", ("${input.a}", "`inputs.`?")),
    "input-missing": Broken(
        after("inputs: {query: a}\ngoal: find ${inputs.qery}\n"), "6:12", ("`inputs` has no `qery`", "`query`?")
    ),
    "persona-missing": Broken(steps("{act: open, url: '${persona.home}'}"), "3:23", ("`persona` has no `home`",)),
    "reference-unclosed": Broken(steps("{act: open, url: 'a${inputs.x'}"), "3:24", ("no closing brace",)),
    "param": Broken(steps("{act: open, url: '${param.x}'}"), "3:23", ("the task has no `parametrize`",)),
    "param-unknown": Broken(
        after("goal: ${param.skuu}${param.sku}\nparametrize: [{sku: a}]\n"), "5:7", ("no `skuu`", "`sku`?")
    ),
    "param-in-param": Broken(
        after("goal: ${param.a}${param.b}\nparametrize: [{a: 1, b: '${param.a}'}]\n"),
        "6:26",
        ("can refer to env:NAME, fake.x, now or totp:NAME only",),
    ),
    "memory-in-goal": Broken(after("goal: ${memory.x}\n"), "5:7", ("steps and criteria only",)),
    "input-in-input": Broken(after("inputs: {a: '${inputs.b}', b: 1}\n"), "5:14", ("totp:NAME or param.x only",)),
    # Against each other and the disk
    "task_id-escapes": Broken("task_id: ../../x\nsteps: [{act: open, url: x}]\n", "1:10", ("path separator",)),
    "task_id-dots": Broken("task_id: a..b\nsteps: [{act: open, url: x}]\n", "1:10", ("must not hold `..`",)),
    "task_id-hidden": Broken("task_id: .a\nsteps: [{act: open, url: x}]\n", "1:10", ("begin with a dot",)),
    "task_id-control": Broken('task_id: "a\\nb"\nsteps: [{act: open, url: x}]\n', "1:10", ("control characters",)),
    "task_id-long": Broken(f"task_id: {'a' * 201}\nsteps: [{{act: open, url: x}}]\n", "1:10", ("at most 200",)),
    "time-without-zone": Broken(after("time: 2025-11-16T09:00:00\n"), "5:7", ("not a point in time", "with a zone")),
    "time-nonsense": Broken(after("time: tomorrow\n"), "5:7", ("ISO 8601", "found: text 'tomorrow'")),
    "domain-url": Broken(after("allowed_domains: ['http://shop.local']\n"), "5:19", ("not a host name",)),
    "upload-absolute": Broken(steps("{act: upload, selector: a, value: /etc/passwd}"), "3:39", ("absolute",)),
    "upload-windows": Broken(steps("{act: upload, selector: a, value: 'C:\\x'}"), "3:39", ("absolute",)),
    "upload-escapes": Broken(steps("{act: upload, selector: a, value: ../x}"), "3:39", ("leaves the task's folder",)),
    "upload-missing": Broken(steps("{act: upload, selector: a, value: [no.png]}"), "3:40", ("no such file",)),
    "fault-both": Broken(
        after("faults:\n- {kind: refuse, host: a.local, connections: 1, seconds: 2}\n"),
        "6:3",
        ("either `connections`",),
    ),
    "fault-neither": Broken(after("faults:\n- {kind: refuse, host: a.local}\n"), "6:3", ("how long it lasts",)),
    "fault-act": Broken(
        after("faults:\n- {kind: page_crash, act: clik}\n"), "6:27", ("there is no act `clik`", "`click`?")
    ),
    "fault-same-id": Broken(
        after("faults:\n- {id: a, kind: page_crash}\n- {id: a, kind: page_crash}\n"),
        "7:8",
        ("the id `a` is taken by faults[0]",),
    ),
    "fault-selector": Broken(
        after("faults:\n- {kind: missing, selector: 'text=Foo'}\n"), "6:30", ("not a CSS selector", "only by CSS")
    ),
    "fault-path-outside": Broken(
        after("faults:\n- {kind: database_locked, path: ../x, seconds: 1}\n"), "6:33", ("leads out of the project",)
    ),
    "fault-kind": Broken(after("faults:\n- {kind: refus, host: a}\n"), "6:10", ("not a known kind", "`refuse`?")),
    "fault-step": Broken(
        after("faults:\n- {kind: hang, url: '*', step: 2}\n"), "6:32", ("no such step", "expected: 0 to 1")
    ),
    "fault-host-url": Broken(
        after("faults:\n- {kind: refuse, host: 'http://a.local', connections: 1}\n"), "6:24", ("not a host name",)
    ),
    "fault-channel": Broken(
        after("faults:\n- {kind: delayed_state, channel: shop, path: a, value: 1, seconds: 1}\n"),
        "6:34",
        ("unknown channel `shop`",),
    ),
    "expect-bare": Broken(after("expect: {final_state: failed}\n"), "5:9", ("must name the `error_type` or `code`",)),
    "expect-state": Broken(after("expect: {final_state: fail}\n"), "5:23", ("not a known word", "`failed`?")),
    "expect-type": Broken(
        after("expect: {final_state: failed, error_type: timeout}\n"), "5:43", ("timeout_task", "`timeout_")
    ),
    "expect-code": Broken(after("expect: {final_state: failed, code: STEP_TIMEUOT}\n"), "5:37", ("`STEP_TIMEOUT`?",)),
    "expect-code-and-type": Broken(
        after("expect: {final_state: failed, code: STEP_TIMEOUT, error_type: timeout_task}\n"),
        "5:63",
        ("does not fit the code", "timeout_step"),
    ),
    "expect-step": Broken(
        after("expect: {final_state: failed, code: STEP_TIMEOUT, step_index: 3}\n"),
        "5:63",
        ("no such step", "2 (success"),
    ),
    "expect-warning": Broken(
        after("expect: {final_state: completed, warnings: [network_recovered]}\n"), "5:45", ("there is no warning",)
    ),
    "expect-error-of-success": Broken(
        after("expect: {final_state: completed, code: STEP_TIMEOUT}\n"), "5:9", ("has no error",)
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_refused_with_its_place_and_words(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    path = write(tmp_path, broken.text, broken.name)
    found = [str(problem) for problem in problems(path, known_channels=frozenset({"env"}))]
    assert found, "it was loaded"
    assert len(found) == 1, "nothing else is said of a file with one mistake"
    fitting = [text for text in found if text.startswith(f"{path}:{broken.place}:")]
    assert fitting, found
    assert any(all(word in text for word in broken.words) for text in fitting), found
