"""Options and settings that cannot act on the machines of a cluster: a run with them is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from harness.cluster.place import ClusterPlace
from harness.model.settings import Settings
from harness.pytest_plugin.state import SessionState
from harness.spec.agents import BRIDGE


class RefusedOption(Struct, frozen=True):
    """One option that `--task-cluster` refuses."""

    name: str
    dest: str
    why: str
    fine: tuple[object, ...] = (None, False, 0, "")
    """Values that change nothing."""


REFUSED = (
    RefusedOption("-n", "numprocesses", "the slots of the cluster take the place of the workers of pytest-xdist"),
    RefusedOption("--dist", "dist", "the cluster divides the tests itself", (None, "no")),
    RefusedOption("--pdb", "usepdb", "a debugger has no terminal on another machine"),
    RefusedOption("--trace", "trace", "a debugger has no terminal on another machine"),
    RefusedOption("--setup-only", "setuponly", "what other machines set up is not shown"),
    RefusedOption("--setup-plan", "setupplan", "what other machines set up is not shown"),
    RefusedOption("--setup-show", "setupshow", "what other machines set up is not shown"),
    RefusedOption("--cov", "cov_source", "pytest-cov cannot collect from other machines", (None, False, [])),
    RefusedOption(
        "--task-update-baselines", "task_update_baselines", "the baselines would be written on the slots' machines"
    ),
    RefusedOption(
        "--task-models",
        "task_models",
        "the recordings would be written on the slots' machines; record without a cluster",
        (None, "live", "replay"),
    ),
    RefusedOption(
        "--task-evidence",
        "task_evidence",
        "the evidence of passed tasks would stay on the slots' machines",
        (None, "failed"),
    ),
    RefusedOption("--task-bridge-port", "task_bridge_port", "agents that run elsewhere cannot reach the slots"),
    RefusedOption("--task-bridge-wait", "task_bridge_wait", "agents that run elsewhere cannot reach the slots"),
)


def refuse_options(config: pytest.Config, state: SessionState) -> None:
    """Raise UsageError, with a sentence for each, for what cannot act on a cluster."""
    if sentences := [*_options(config), *_settings(config, state)]:
        raise pytest.UsageError("\n".join(f"--task-cluster: {each}" for each in sentences))


def _options(config: pytest.Config) -> Iterator[str]:
    for option in REFUSED:
        value: Any = config.getoption(option.dest, None)
        if value not in option.fine:
            yield f"{option.name} cannot be used: {option.why}"
    if config.getoption("task_store", None) and config.getoption("task_resume", None):
        yield (
            "--task-resume cannot be used with --task-store: the store has what the run has done, and the same command "
            "goes on with it. Leave --task-resume out"
        )


def _settings(config: pytest.Config, state: SessionState) -> Iterator[str]:
    settings, place = state.settings, config.getoption("task_cluster")
    assert isinstance(place, ClusterPlace)
    if BRIDGE in (state.chosen, settings.agent):
        yield "the agent `bridge` cannot be used: agents that run elsewhere cannot reach the slots"
    if settings.evidence == "all" and config.getoption("task_evidence", None) is None:
        yield 'evidence = "all" cannot be used: the evidence of passed tasks would stay on the slots\' machines'
    if settings.shared_state and not place.local and (shared := _shared_site(settings)):
        yield (
            f"the tasks of this project share one state, so each needs it for itself, but the machines of the cluster "
            f"share {shared}. Expected: services with a `command`, which each slot starts for itself, or "
            '`isolation = "world"`, or `isolation = "none"` with `parallel = true`'
        )
    fixed = [f"{name}: {host} = {port}" for name, host, port in _fixed_ports(settings)]
    if place.local > 1 and fixed:
        yield (
            f"{place} starts the services for each slot, but a port can be taken only once on a machine "
            f'({"; ".join(fixed)}): use "auto", or one slot'
        )


def _shared_site(settings: Settings) -> str:
    """The site that all machines share; empty if each slot has its own."""
    elsewhere = [name for name, each in settings.services.items() if not each.command]
    if elsewhere:
        return f"service `{elsewhere[0]}`"
    return "" if settings.services else "the site"


def _fixed_ports(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """Service, host and port of each port that is a number."""
    for name, each in settings.services.items():
        if each.command:
            yield from ((name, host, port) for host, port in each.hosts.items() if isinstance(port, int))
