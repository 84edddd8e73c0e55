"""The closed vocabularies of failure, and the facts of its families: a row each, with what holds for all its codes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.resilience.events import SESSION


class ErrorType(StrEnum):
    """`error_type` of an ErrorReport: one of exactly 14 values."""

    TIMEOUT_TASK = "timeout_task"
    TIMEOUT_STEP = "timeout_step"
    NETWORK_DNS_FAILURE = "network_dns_failure"
    NETWORK_CONNECTION_REFUSED = "network_connection_refused"
    NETWORK_TIMEOUT = "network_timeout"
    ELEMENT_NOT_FOUND = "element_not_found"
    SELECTOR_AMBIGUOUS = "selector_ambiguous"
    ACTION_FAILED = "action_failed"
    ASSERTION_FAILED = "assertion_failed"
    PRECONDITION_NOT_MET = "precondition_not_met"
    STATE_INCONSISTENCY = "state_inconsistency"
    AUTHENTICATION_FAILED = "authentication_failed"
    BUDGET_EXCEEDED = "budget_exceeded"
    UNKNOWN = "unknown"


class Category(StrEnum):
    """The four branches of the taxonomy."""

    INFRASTRUCTURE = "infrastructure"
    EXECUTION = "execution"
    LOGIC = "logic"
    CATASTROPHIC = "catastrophic"


class Severity(StrEnum):
    """How bad it is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
    FATAL = "fatal"


class Family(StrEnum):
    """The rule of `error_recovery` that answers a failure; NONE always gives up."""

    TIMEOUT = "on_timeout"
    NETWORK = "on_network_error"
    ELEMENT = "on_element_not_found"
    AMBIGUOUS = "on_selector_ambiguous"
    ACTION = "on_action_failed"
    ASSERTION = "on_assertion_fail"
    PRECONDITION = "on_precondition_fail"
    INCONSISTENCY = "on_state_inconsistency"
    BROWSER = "on_browser_crash"
    NONE = "none"


class Scope(StrEnum):
    """How far a failure reaches: what has to be replaced, and which circuit counts it."""

    ORIGIN = "origin"
    """The site."""
    PAGE = "page"
    CONTEXT = "context"
    BROWSER = "browser"
    DRIVER = "driver"
    AGENT = "agent"
    PROVIDER = "provider"
    """The provider of a model."""
    WORLD = "world"
    """Memory and environment channels."""
    TASK = "task"
    RUN = "run"
    """The whole run: its machine, its settings, the harness."""


class Effect(StrEnum):
    """Whether the act reached the system under test before it failed (docs/design/never-twice.md)."""

    NONE = "none"
    POSSIBLE = "possible"
    DONE = "done"


class Suspect(StrEnum):
    """Where to look first after a failure."""

    SITE = "site"
    """The system under test."""
    TASK = "task"
    """The task's file: its steps, selectors, criteria and limits."""
    MACHINE = "machine"
    """The computer of the run: its browser, its network, its memory."""
    AGENT = "agent"
    """The agent that chose the steps, or its model."""
    PROJECT = "project"
    """What the project provides: settings, services, accounts, data, hooks, tool servers."""


class Group(StrEnum):
    """The headings of reports, in their order: product defects apart from infrastructure."""

    PRODUCT = "Product defects (assertions and success criteria)"
    STATE = "Preconditions and state"
    TIME = "Timeouts"
    ELEMENT = "Elements (not found, ambiguous)"
    ACTION = "Actions (covered, disabled, invalid)"
    NETWORK = "Sites and network"
    BROWSER = "Browser"
    POLICY = "Policy, login, budget"
    REST = "Harness and unknown"
    FILE = "Task files that cannot be loaded"


class FamilyFacts(Struct, frozen=True, kw_only=True):
    """What holds for every failure of one family, unless the row of its code says otherwise."""

    scope: Scope
    """How far such a failure reaches."""
    suspect: Suspect
    """Where to look first."""
    leaves_open: bool = False
    """Whether it stays unknown if a write took effect, unless the code itself is an answer (4xx)."""
    awaits: bool = False
    """Whether the attempt was waiting when it failed; if the task's time ends then, that is the failure."""
    report_group: Group
    first_artifact: str
    """The file that shows most of the failure and is looked at first; empty: none is better than the report."""
    outlasted_by: str = ""
    """The part of a task that withstands an injected fault of this kind, in words; empty if nothing can be declared."""
    proposed_rule: tuple[str, ...] = ()
    """Lines of YAML that a task which is flaky by this family may declare, the first in `error_recovery`."""
    event_category: str = ""
    """The `category` of its events (`Row.event_category`); empty: the family declares none."""
    recovery_name: str
    """The name of its rate in `recovery_success_rate`."""
    warning: str
    """The type of the warning if a step failed with this family and passed in the end."""
    got_over: str = "{type} recovered after {retries}"
    """The text of that warning; `{message}` is the message of the first failure."""


_CHECKPOINT = "checkpoints: [0]   # or the last step that is safe to go back to"

FAMILIES: dict[Family, FamilyFacts] = {
    Family.TIMEOUT: FamilyFacts(
        scope=Scope.PAGE, suspect=Suspect.SITE, leaves_open=True, report_group=Group.TIME,
        first_artifact="screenshot.png", outlasted_by="`on_timeout` or a longer `timeout`",
        proposed_rule=("on_timeout: {strategy: retry_from_checkpoint}", _CHECKPOINT), recovery_name="timeout",
        warning="action_retry_success",
    ),
    Family.NETWORK: FamilyFacts(
        scope=Scope.ORIGIN, suspect=Suspect.SITE, leaves_open=True, awaits=True, report_group=Group.NETWORK,
        first_artifact="network_logs.har", outlasted_by="more retries in `on_network_error`",
        proposed_rule=("on_network_error: {strategy: exponential_backoff, max_retries: 5}",),
        event_category="network", recovery_name="network_error", warning="network_error_recovered",
    ),
    Family.ELEMENT: FamilyFacts(
        scope=Scope.PAGE, suspect=Suspect.TASK, awaits=True, report_group=Group.ELEMENT,
        first_artifact="screenshot.png", outlasted_by="a longer `wait_seconds` in `on_element_not_found`",
        proposed_rule=("on_element_not_found: {strategy: wait_and_retry, wait_seconds: 20}",),
        recovery_name="element_not_found", warning="element_appeared_late",
    ),
    Family.AMBIGUOUS: FamilyFacts(
        scope=Scope.PAGE, suspect=Suspect.TASK, report_group=Group.ELEMENT, first_artifact="screenshot.png",
        outlasted_by="`on_selector_ambiguous`", recovery_name="selector_ambiguous", warning="element_appeared_late",
    ),
    Family.ACTION: FamilyFacts(
        scope=Scope.PAGE, suspect=Suspect.SITE, awaits=True, report_group=Group.ACTION,
        first_artifact="screenshot.png", outlasted_by="`on_action_failed`", recovery_name="action_failed",
        warning="action_retry_success",
    ),
    Family.ASSERTION: FamilyFacts(
        scope=Scope.PAGE, suspect=Suspect.SITE, report_group=Group.PRODUCT, first_artifact="screenshot.png",
        outlasted_by="`on_assertion_fail`",
        proposed_rule=("on_assertion_fail: {strategy: retry_after_wait, wait_before_retry_seconds: 5}",),
        recovery_name="assertion_retry", warning="assertion_retry_success",
    ),
    Family.PRECONDITION: FamilyFacts(
        scope=Scope.WORLD, suspect=Suspect.PROJECT, report_group=Group.STATE, first_artifact="memory_snapshot.json",
        outlasted_by="`on_precondition_fail`", recovery_name="precondition_fail", warning="precondition_repaired",
    ),
    Family.INCONSISTENCY: FamilyFacts(
        scope=Scope.WORLD, suspect=Suspect.SITE, report_group=Group.STATE, first_artifact="env_snapshot.json",
        outlasted_by="`on_state_inconsistency`", recovery_name="state_inconsistency",
        warning="state_inconsistency_resolved",
    ),
    Family.BROWSER: FamilyFacts(
        scope=Scope.BROWSER, suspect=Suspect.MACHINE, leaves_open=True, report_group=Group.BROWSER,
        first_artifact="console_logs.txt", outlasted_by="`on_browser_crash` and checkpoints",
        proposed_rule=("on_browser_crash: {strategy: restart_from_checkpoint}", _CHECKPOINT), event_category=SESSION,
        recovery_name="browser_crash", warning="page_recovered",
        got_over="{message}; the page was freed or opened again",
    ),
    Family.NONE: FamilyFacts(
        scope=Scope.TASK, suspect=Suspect.TASK, report_group=Group.REST, first_artifact="", recovery_name="none",
        warning="action_retry_success",
    ),
}  # fmt: skip
"""The facts of each family, beside its rule; a test checks that every family has a row."""
