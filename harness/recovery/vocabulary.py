"""The closed vocabularies of failure: its types, categories, severities, families, scopes and effects."""

from __future__ import annotations

from enum import StrEnum


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
