"""What an evaluation depends on, as digests: it goes on only while all of it is the same."""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from harness.model.agent_settings import AgentSettings
from harness.model.model_settings import CASSETTES
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.runner.campaign.trials import Attack
from harness.runner.evaluation.trials import EvaluationSize
from harness.spec.agents import GROUP
from harness.spec.fault_plan import LoadedFaultPlan
from harness.spec.names import slug
from harness.spec.steps import Assert, Upload

LOCK = "lock.json"
_PACKAGES = ("pytest-taskspec", "playwright", "pydantic-ai-slim", "openai", "anthropic")
"""The packages whose versions may change how an agent does."""
_PROMPT = ("prompt.py", "tools.py", "view.py")
"""The modules of `harness.agents` with the words that a model is told."""
ELSEWHERE = frozenset({"root", "artifacts", "history_runs", "keep_previous", "log_profile", "telemetry"})
"""Settings that say only where results are kept, or how much is told."""
BROWSER = "browser"
"""What the file calls the version of the browser, which is known once the first one has started."""

Digests = Mapping[str, str]
"""What -> its value, or the beginning of its sha256."""


def digests(
    found: Mapping[str, Sequence[Attack]], size: EvaluationSize, loaded: LoadedFaultPlan | None, settings: Settings
) -> Digests:
    """Everything that the evaluation depends on."""
    command = {
        "--agents": ",".join(found),
        "--trials": str(size.trials),
        "--seed": str(size.seed),
        "the fault plan": "none" if loaded is None else _digest(loaded.plan.model_dump(mode="json")),
    }
    parts = (_of_tasks(found), _of_settings(settings), _of_code(found, settings), _of_recordings(found, settings))
    return {**command, **{name: value for part in parts for name, value in part}}


_Parts = Iterator[tuple[str, str]]


def _of_tasks(found: Mapping[str, Sequence[Attack]]) -> _Parts:
    """Yield the tasks, and those that run before them, with their groups, data and defaults filled in."""
    for attack in next(iter(found.values()), ()):
        if attack.fault is None:
            spec = attack.task.spec
            yield f"task {spec.task_id} ({attack.task.source})", _digest(spec.model_dump(mode="json", by_alias=True))
            for plan in attack.preludes:
                yield f"task {plan.task_id} ({plan.source})", _digest(plan.spec.model_dump(mode="json"))
            for plan in (attack.plan, *attack.preludes):
                yield from _of_files(plan)


def _of_files(plan: Plan) -> _Parts:
    """Yield the files that the steps of a task upload, and those with which they compare a page."""
    for step in plan.steps:
        found: list[Path] = []
        if isinstance(step, Upload):
            found = [plan.folder / name for name in ([step.value] if isinstance(step.value, str) else step.value)]
        elif isinstance(step, Assert) and step.baseline:
            declared = plan.folder / step.baseline
            found = sorted(declared.parent.glob(f"{declared.stem.partition('.')[0]}*"))
        for file in found:
            if file.is_file():
                yield f"file {file.relative_to(plan.folder)}", _sha(file.read_bytes())


def _of_settings(settings: Settings) -> _Parts:
    """Yield each key of `[tool.harness]`, and each table of a table, such as `models.claude`."""
    root = str(settings.root.absolute())
    for key, value in settings.model_dump(mode="json", exclude=set(ELSEWHERE)).items():
        tables = value if isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()) else None
        for name, table in ({key: value} if not tables else {f"{key}.{n}": t for n, t in tables.items()}).items():
            yield f"settings {name}", _digest(json.loads(json.dumps(table).replace(root, "")))


def _of_code(found: Mapping[str, Sequence[Attack]], settings: Settings) -> _Parts:
    """Yield the code that chooses steps, and the versions of what runs it."""
    shipped = (files("harness.agents").joinpath(name).read_text("utf-8") for name in _PROMPT)
    yield "the prompt of language models", _sha("".join(shipped).encode())
    for name in found:
        yield from _of_agent(name, settings)
        yield from _of_program(name, settings)
    yield "Python", platform.python_version()
    for name in _PACKAGES:
        try:
            yield f"version of {name}", version(name)
        except PackageNotFoundError:
            yield f"version of {name}", "not installed"


def _of_agent(name: str, settings: Settings) -> _Parts:
    """Yield the project's modules of an agent, or the package that brings it."""
    name, table = _named(name, settings)
    if table is not None and table.python:
        for file in project_modules(table.python.partition(":")[0], settings.root):
            yield f"agent {name} ({file.relative_to(settings.root)})", _sha(file.read_bytes())
    for point in entry_points(group=GROUP, name=name):
        if point.dist is not None:
            yield f"agent {name}", f"{point.dist.name} {point.dist.version}"


def _of_program(name: str, settings: Settings) -> _Parts:
    """Yield the files that the command of an agent names: the program itself, its script, its settings."""
    _, table = _named(name, settings)
    for number, word in enumerate(table.command or () if table else ()):
        file = Path(word.rpartition("=")[2])
        if number == 0 and "/" not in word:
            file = Path(shutil.which(word) or word)
        elif word == "{browser_use}":
            file = Path(str(files("harness.agents").joinpath("browser_use_driver.py")))
        elif table and table.cwd is not None:  # else it starts in an empty folder
            file = settings.root / table.cwd / file
        if file.is_absolute() and file.is_file():
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
            yield f"agent {name} ({word.replace(str(settings.root), '')})", digest


def project_modules(name: str, root: Path) -> list[Path]:
    """The files below `root` of a module and of all that it imports by `import` statements, without running any."""
    found: dict[Path, None] = {}
    waiting = list(_files_of(name, root))
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        package = file.parent.relative_to(root).parts
        waiting += [each for module in _imports(file, package) for each in _files_of(module, root)]
    return [*found]


def _files_of(module: str, root: Path) -> Iterator[Path]:
    """Yield the files of a module that stand below `root`, with those of the packages around it."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:end])
        yield from (each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file())


def _imports(file: Path, package: tuple[str, ...]) -> Iterator[str]:
    """Yield the modules that a file may import; of `from a import b` also `a.b`, which may be one."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # the agent cannot be imported, as its trials tell
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join(filter(None, (*around, node.module)))
            yield from filter(None, (base, *(f"{base}.{each.name}".lstrip(".") for each in node.names)))


def _named(name: str, settings: Settings) -> tuple[str, AgentSettings | None]:
    """The name and the table that say what the agent is: its own, or those of the agent for which it stands."""
    table = settings.agents.get(name)
    while table is not None and table.agent is not None:
        name, table = table.agent, settings.agents.get(table.agent)
    return name, table


def _of_recordings(found: Mapping[str, Sequence[Attack]], settings: Settings) -> _Parts:
    """Yield the recordings of models, where only they may answer; elsewhere the trials themselves may write them."""
    if settings.cassettes.mode != "replay":
        return
    for attack in next(iter(found.values()), ()):
        if attack.fault is None:
            for plan in (attack.plan, *attack.preludes):
                for file in sorted((plan.folder / CASSETTES / slug(plan.key)).glob("*.jsonl")):
                    yield f"recording {slug(plan.key)}/{file.name}", _sha(file.read_bytes())


def _digest(value: Any) -> str:
    return _sha(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


# The file, and what is different from it.


class LockFile(Struct, frozen=True):
    """The file."""

    version: Literal[1]
    depends_on: dict[str, str]


def write_lock(folder: Path, found: Digests) -> None:
    """Write the file. Raises OSError."""
    temporary = folder / f".{LOCK}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(LockFile(1, dict(found)))) + b"\n")
    temporary.replace(folder / LOCK)


def read_lock(folder: Path) -> Digests:
    """Read the file. Raises ValueError for a file that is none, or OSError."""
    try:
        return msgspec.json.decode((folder / LOCK).read_bytes(), type=LockFile).depends_on
    except msgspec.DecodeError as error:
        raise ValueError(f"{folder / LOCK}: is no lock file of an evaluation: {error}") from None


def lock_browser(folder: Path, described: str) -> None:
    """Write the version that begins this text into the file, once. Raises ValueError for another one, or OSError.

    The text is empty as long as no browser has started.
    """
    version, before = described.partition(" (")[0], read_lock(folder)
    if not version or before.get(BROWSER) == version:
        return
    if BROWSER in before:
        raise ValueError("\n".join(changes(before, {**before, BROWSER: version})))
    write_lock(folder, {**before, BROWSER: version})


def changes(before: Digests, now: Digests) -> Iterator[str]:
    """Yield what is different, a line each; the browser only if it is known now."""
    for name in sorted((before.keys() - {BROWSER}) | now.keys()):
        was, became = before.get(name), now.get(name)
        if was == became:
            continue
        if was is None:
            yield f"{name}: is new"
        elif became is None:
            yield f"{name}: is gone"
        elif name.startswith(("--", "version", "Python", BROWSER)):
            yield f"{name}: was {was}, is {became}"
        else:
            yield f"{name}: has changed"
