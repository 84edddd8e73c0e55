"""What is run for each documented command, and what it must say; or why it is not run, and what is checked instead."""

from __future__ import annotations

from dataclasses import dataclass

from harness.values import replace
from tests.acceptance.documented_runs import MERGE, PREPARED

FILLED = {
    "TASK_ID": "B1-2025-001", "CODE": "ELEMENT_NOT_FOUND", "NAME": "another", "TAG": "shop", "DIR": "errors",
    "RUN": "last-1",
}  # fmt: skip
"""Placeholders that mean the same everywhere."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Run to its end; `line` in place of the documented one, with the options that this has and maybe more."""

    pattern: str
    says: str
    codes: tuple[int, ...] = (0,)
    line: str = ""
    folder: str = "shop"


@dataclass(frozen=True, slots=True)
class Served:
    """Run until it says this; then what it serves must answer, and Ctrl-C end it."""

    pattern: str
    says: str
    codes: tuple[int, ...] = (0, 130)
    line: str = ""
    folder: str = "shop"


@dataclass(frozen=True, slots=True)
class Left:
    """Not run, for this reason; its options must be in the `--help` of this module's command, where one is named."""

    pattern: str
    why: str
    help: str = ""


Rule = Ran | Served | Left
ONE = (0, 1)
RED = "1 failed, 2 passed"
REPORTED = (
    " --(alluredir|junit-xml|task-summary|task-breaker|task-timeout-scale|task-evidence|task-recording|task-shard)"
)
"""Options of PREPARED, in any number."""
NAMED = "harness (validate|fmt|verify|chaos|services|replay|open|new|record|import)"
"""Commands that are spoken of; what they do when they are typed is shown by the rules for them."""
FIRST = "tasks/my-first.task.yaml"
"""One task shows what a command does; what it does with many is for the tests of that command."""
CHAOS = (
    f"harness chaos {FIRST} --faults tasks/campaigns/e2e.faults.yaml --trials 1 --seed 1 --json c.json --markdown c.md"
)
FAULTS = f"harness run {FIRST} --task-faults nightly.faults.yaml"
FILES = f"pytest first.task.yaml {FIRST}"
REPORT = "harness report --single-file --open --serve 0 --output one"
RETRACE = "pytest examples/RED-2025-001.task.yaml::RED-2025-001 --task-retrace"
WITH_DEPS = 'pytest "tasks/C2-2025-002.task.yaml::C2-2025-002" -k C2 --task-with-deps'
WORKERS = f"pytest {FIRST} -n 2 --task-workers auto"
DEAD_END = "pytest tasks/ --task-browser-endpoint ws://127.0.0.1:9/SECRET"
NOWHERE = "pytest tasks/ --task-browser-executable nowhere"

CALL = 'harness tools call mail get_code \'{"to": "ann@shop.local"}\''
LISTED = (
    r"mail: 2 tools \(mailbox, MCP \S+\)\n"
    r"  get_code      read   \(its server says so\)      The newest code that was mailed to an address.\n"
    r"  delete_mails  write  \(nothing says otherwise\)  Delete all mails to an address."
)

REPORTS: tuple[Rule, ...] = (
    Ran(r"harness triage", "1 of 3 tasks failed: 1 cause"),
    Ran(r"harness triage --artifacts (DIR|merged/errors)", "ELEMENT_NOT_FOUND"),
    Ran(r"harness circuits( --all| --reset \S+)?", "no circuits are kept.*persist = true", (1,)),
    Ran(r"harness show TASK_ID", r"no element matches #no-such-thing"),
    Ran(r"harness show last", r"no element matches #no-such-thing"),
    Ran(r"harness explain CODE", "on_element_not_found"),
    Served(r"harness open TASK_ID", "Ctrl-C ends"),
    Ran(r"harness replay TASK_ID", "stopped before step 1 click #no-such-thing"),
    Ran(r"harness replay last", "stopped before step 1 click #no-such-thing"),
    Ran(r"harness replay TASK_ID --headed", "there is no display for a window", (1,)),
    Ran(r"harness regrade( errors/B1-2025-001| errors --json)?( --spec \S+)?", "B1-2025-001", (1, 3)),
    Ran(r"harness regrade (errors )?(--at-failure )?--allow-undecided", "B1-2025-001", ONE,
        "harness regrade errors --at-failure --allow-undecided"),
    Ran(r"harness regrade \.harness/evidence/\S+", "C2-2025-002"),
    Served(r"harness report( --single-file| --open| --serve \d+)?", r"report: one/index.html(.|\n)*http://",
           line=REPORT),
    Ran(r"harness dashboard( --open)?", "dashboard: dashboard.html", line="harness dashboard --open"),
    Ran(r"harness history( list| show last(-1)?| compare( last-5 last)?)?", r"\d{8}T\d{6}"),
    Ran(r"harness history durations( > durations.json)?", "seconds", line="harness history durations"),
    Ran(r"harness history prune --keep 50", "runs dropped"),
    Ran(r"harness history flaky", "in the last 30 runs|T-FLAKY"),
    Ran(r"harness history task (TASK_ID|B1-2025-001)", "B1-2025-001"),
    Ran(r"harness history show --project merged", "merged"),
    Ran(r"harness merge( shard-\d)+( --output merged)?", "merged: run", line=MERGE),
)  # fmt: skip
"""About the run that was made before, in a folder where no other follows."""

RULES: tuple[Rule, ...] = (
    Left(r"pytest tasks/( --task-cluster \S+)( --task-resume \S+)?", "test_cluster.py runs it, on Ray"),
    Left(r"pytest tasks/ --task-cluster \S+ --task-store=\S+", "test_cluster_store.py runs it, on Ray"),
    *(replace(rule, folder="done") for rule in REPORTS if not isinstance(rule, Left)),
    # pytest
    Ran(rf"pytest( tasks/?)?(?! --task-shard 1/3$)({REPORTED} (\S+|\$\{{\{{ [\w.]+ \}}\}}/\d))*",
        RED, (1,), PREPARED, "done"),
    Ran(r"(pytest tasks/|harness run) --task-faults .*|harness run( \S+\.yaml| PATH)?", "faults: 1 struck",
        line=FAULTS),
    Ran(r"pytest (tasks/my-)?first.task.yaml", "2 passed", line=FILES),
    Left(r"pytest tasks/ --task-update-baselines", "test_softness.py writes baselines of its own"),
    Ran(r"pytest examples/playwright(/CHECKS-2025-001.task.yaml --browser-profile desktop --browser-profile phone)?",
        r"passed"),
    Ran(r"pytest examples/(RED-2025-001.task.yaml(::RED-2025-001 --task-retrace)?)?",
        r"ELEMENT_NOT_FOUND(.|\n)*full trace: errors/RED-2025-001/trace_full.zip", (1,), RETRACE),
    Ran(r"pytest (tasks/ )?(-k B1|-m family_B|-m TAG|-m shop|--lf|-x)", "1 failed", (1,),
        "pytest tasks/ -k B1 -m family_B --lf -x"),
    Ran(r"pytest .*--task-with-deps", "2 passed", line=WITH_DEPS),
    Ran(r"pytest tasks/?(?= -)( -n 2)?( --task-workers (\d|auto))?", r"2 workers(.|\n)*1 passed", line=WORKERS),
    Ran(r"pytest tasks/ --task-shard 1/3", r"task shard: 1/3(.|\n)*deselected", ONE),
    Left(r"pytest tasks/ --task-shard 1/3 --task-(durations durations.json|store runs/run-42)", "test_task_store.py"),
    Left(r"harness merge runs/run-42 --output merged", "test_task_store.py merges stores"),
    Ran(r"pytest tasks/ --task-browser-executable PATH", "browser was not found: nowhere", (1,), NOWHERE, "agents"),
    Ran(r"pytest tasks/ --task-browser-endpoint \S+", "ws://127.0.0.1:9: nothing answers there", (1,), DEAD_END,
        "agents"),
    Served(r"python -m playwright run-server .*", "Listening on ws://",
           line="python -m playwright run-server --host 127.0.0.1 --port 0 --path /SECRET --unsafe"),
    Ran(r"pytest --help", "TaskSpec browser tasks"),
    # agents
    Ran(r"pytest --task-agent words tasks/", "1 passed", folder="agents"),
    Ran(r"pytest --task-agent monkey (tasks/|monkey.task.yaml)", "1 (passed|failed)", ONE,
        "pytest --task-agent monkey monkey.task.yaml", "agents"),
    Ran(r"harness validate --agent words", "1 task file", (0,), "harness validate tasks/ --agent words", "agents"),
    Left(r"harness freeze( TASK)?( --check)?", "test_freeze.py freezes a run of an agent"),
    Left(r"harness show TASK --agent", "test_agent_figures.py shows the way of an agent"),
    Left(r"pytest tasks/agents/( --task-models record)?", "make run replays these tasks"),
    Left(r"harness replay TASK --headed --step 3", "it needs a display; `harness replay TASK_ID` is run without"),
    Left(r"python -m tools\.corpus (write DIR|compare DIR_A DIR_B)", "tests/unit/tools/test_corpus.py runs it"),
    Left(r"pytest --task-models record", "test_recordings.py records what a model answers"),
    # tasks
    Left(r"(xvfb-run )?harness record .*", "it needs a display (test_record.py)", "tests.acceptance.command"),
    Left(r"pytest tasks/ --task-live", "test_serve.py watches a run"),
    Left(r"pytest mouse\.task\.yaml --agent bridge .*", "test_bridge_clients.py runs the example agents against it"),
    Left(r"harness serve( --(open|persist|page-only|port|port 7890))?", "test_serve.py", "tests.acceptance.command"),
    Ran(r"harness sessions list", "there are no sessions"),
    Ran(r"harness sessions (show|close) ID", "no session", (1,)),
    Ran(r"harness serve client", "export class Bridge"),
    Left(r"pytest tasks/ --agent bridge", "it waits for an agent: test_bridge.py has some"),
    Left(r"harness mcp( --persist)?", "it speaks MCP with its host: test_mcp.py is one", "tests.acceptance.command"),
    Ran(r"harness serve token --for 7d", r"^view\.[0-9]+\.[0-9a-f]{64}"),
    Ran(r"harness serve token --scope agent", r"^agent\.[0-9]+\.[0-9a-f]{64}"),
    Ran(r"harness serve (status|stop)", "no server of this project runs", (0, 3)),
    Left(r"harness import miniwob( --seeds 1,2)?", "test_import_miniwob.py imports pages", "tests.acceptance.command"),
    Left(r"harness import (?!miniwob).*", "test_import.py imports tests of its own", "tests.acceptance.command"),
    Ran(r"harness new my-first --with-demo", "wrote tasks/my-first.task.yaml", folder="fresh"),
    Ran(r"harness validate (\.|PATH|tasks/|tasks/ --format github|tasks/ nightly.faults.yaml)", "task files", (0,),
        "harness validate tasks/ nightly.faults.yaml --format github"),
    Ran(r"harness validate( tasks/)? --list", r"B1-2025-001  tasks/B1", line="harness validate tasks/ --list"),
    Ran(r"harness validate --strict", r"is missing \(strict\)", (1,), "harness validate --strict tasks/"),
    Ran(r"harness fmt tasks/( --check)?", "reformat", (0, 1), "harness fmt tasks/ --check"),
    Ran(r"harness verify tasks/", r"my-first: sound(.|\n)*1 task, 1 sound", line=f"harness verify {FIRST}"),
    Ran(r"harness schema --write schemas", "schemas"),
    Left(r"harness eval( examples/evaluation .*)?", "test_evaluation.py runs it", "tests.acceptance.command"),
    Ran(r"harness chaos tasks/ --faults \S+( --trials 3 --seed 1| --json \S+ --markdown \S+)?", "clean", line=CHAOS),
    # sites
    Served(r"harness demo", "Ctrl-C ends the sites", line="harness demo --port {base}"),
    Served(r"python -m harness\.demo .*", '"hosts"', line="python -m harness.demo --port 0 --state demo.sqlite3"),
    Served(r"harness services start", "demo: started, pid", folder="started"),
    Ran(r"python -m harness\.demo\.tools .*", "--state FILE", line="python -m harness.demo.tools --state FILE --help"),
    Ran(r"harness services start --persist", "demo", folder="kept"),
    Ran(r"harness services (status|stop)", "demo|nothing", (0, 3), folder="kept"),
    Ran(r"harness services logs", "hosts|no log yet", ONE, folder="kept"),
    # tools
    Ran(r"harness tools list( mail)?", LISTED, folder="tools"),
    Ran(r"harness tools call( mail get_code '.*')?", '"code": "123456"', line=CALL, folder="tools"),
    Ran(r"harness tools status", r"mail.*(no run|running|over)", folder="tools"),
    Ran(r"harness tools restart( mail)?", "mail: no run uses it now", (0,), "harness tools restart mail", "tools"),
    Ran(r"harness tools logs( mail)?", r"started at|no log yet", ONE, folder="tools"),
    Ran(r"harness validate --tools", "1 task file", (0,), "harness validate tasks/ --tools", "tools"),
    Ran(r"pytest tasks/code\.task\.yaml", r"tools: 1 call\n(.|\n)*1 passed", folder="tools"),
    # the rest
    Ran(r"python -m tools\.docs\.error_codes docs/error-codes\.md", ""),
    Ran(NAMED, "Usage:", line="{text} --help"),
    Left(r"(TASKSPEC_TESTS=full )?make (run|test)", "they set up and run everything; .ci/run is these two"),
    Left(r"make docs", "a check of `make test` does the same"),
    Left(r"make release", "test_release.py looks at its parts; the whole takes ten minutes"),
    Left(r"make test PYTHON=python3.12", "it is the suite; test_bootstrap.py finds such a Python"),
    Left(r"make (bench|soak)( .*)?", "half an hour each, on a quiet machine"),
    Left(r"python (benchmarks/resilience\.py|-m benchmarks(\.soak)? --help)", "wants a quiet machine"),
    Left(r"pytest tasks -o addopts=", "is `pytest tasks/` without the options of the project"),
    Left(r"harness watch( tasks/)?", "goes on until a key ends it (test_watch.py)", "tests.acceptance.command"),
    Left(r"pytest --browser-profile desktop --browser-profile phone", "test_browser_profiles.py runs such a project"),
    Left(r"python -m venv \.venv", "makes an environment without this package in it"),
    Left(r"pip (install|wheel) .*", "changes the environment that the tests run in"),
    Left(r"playwright (install|show-trace|codegen).*", "downloads a browser; opens a window", "playwright"),
    Left(r"npx allure generate", "Allure's own, of which the page says what it lacks"),
    Left(r"apt-get install .*", "changes the machine"),
)  # fmt: skip
