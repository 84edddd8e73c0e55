"""The catalog of codes: one table, the source of every general statement about a failure (docs/design/failures.md)."""

from __future__ import annotations

from msgspec import Struct

from harness.recovery.families import FAMILIES, Category, Effect, ErrorType, Family, Group, Scope, Severity, Suspect
from harness.resilience.events import VALIDATION

__all__ = [
    "CATALOG", "FAMILIES", "Category", "Effect", "ErrorType", "Family", "Group", "Row", "Scope", "Severity",
    "Suspect", "row",
]  # fmt: skip


_OF_AGENTS = frozenset({Scope.AGENT, Scope.PROVIDER})
"""The scopes of failures that say nothing about the site: those of an agent, and of the provider of its model."""
_POLICY = "POLICY_"
"""How the codes begin of what the task or the project forbids, to every agent."""


class Row(Struct, frozen=True):
    """What holds for every failure of one code."""

    code: str
    error_type: ErrorType
    category: Category
    severity: Severity
    family: Family
    retryable: bool
    cause: str
    hint: str
    max_retries: int = 0
    """How many times `on_network_error` tries again if the task's file names no number."""
    named_scope: Scope | None = None
    named_artifact: str = ""
    named_event_category: str = ""
    named_suspect: Suspect | None = None

    @property
    def suspect(self) -> Suspect:
        """Where to look first, if the evidence of the failure says nothing else (`suspect_of`)."""
        return self.named_suspect or FAMILIES[self.family].suspect

    @property
    def kind(self) -> str:
        """Its `error_type` for people. Where none of the 14 values fits, the name of its family, or else its code."""
        if self.error_type is not ErrorType.UNKNOWN:
            return str(self.error_type)
        return self.code.lower() if self.family is Family.NONE else FAMILIES[self.family].recovery_name

    @property
    def scope(self) -> Scope:
        """How far the failure reaches: as its row says, or else as its family says."""
        return self.named_scope or FAMILIES[self.family].scope

    @property
    def first_artifact(self) -> str:
        """The file to look at first: the one of its row, or else the one of its family."""
        return self.named_artifact or FAMILIES[self.family].first_artifact

    @property
    def relieves(self) -> bool:
        """Whether it is a failure of the agent or of its model, so that another agent may go on with the task."""
        return self.scope in _OF_AGENTS and not self.code.startswith(_POLICY)

    @property
    def event_category(self) -> str:
        """The `category` of its events, by which thresholds count: that of its row or family, else its `error_type`."""
        general = str(self.category if self.error_type is ErrorType.UNKNOWN else self.error_type)
        return self.named_event_category or FAMILIES[self.family].event_category or general


_T, _C, _S, _F, _W = ErrorType, Category, Severity, Family, Suspect
_INFRA, _EXEC, _LOGIC, _FATAL = _C.INFRASTRUCTURE, _C.EXECUTION, _C.LOGIC, _C.CATASTROPHIC


DEFAULT_RETRIES = 3
"""Extra attempts after a network failure, unless the row of its code names another number."""


def _network(
    code: str,
    error_type: ErrorType,
    cause: str,
    hint: str,
    retries: int = DEFAULT_RETRIES,
    *,
    event_category: str = "",
    suspect: Suspect | None = None,
) -> Row:
    return Row(
        code, error_type, _INFRA, _S.ERROR, _F.NETWORK, bool(retries), cause, hint, retries,
        named_event_category=event_category, named_suspect=suspect,
    )  # fmt: skip


def _model(code: str, retryable: bool, cause: str, hint: str, *, event_category: str = "") -> Row:
    """A failure of a model that neither its retries nor its fallbacks have cured."""
    return Row(
        code, _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, retryable, cause, hint,
        named_scope=Scope.PROVIDER, named_event_category=event_category, named_suspect=_W.AGENT,
    )  # fmt: skip


def _tool(
    code: str, error_type: ErrorType, cause: str, hint: str, retries: int = DEFAULT_RETRIES, *, event_category: str
) -> Row:
    """A failure of a tool server that its own schedule of retries has not cured."""
    return Row(
        code, error_type, _INFRA, _S.ERROR, _F.NETWORK, bool(retries), cause, hint, retries,
        named_artifact="error_report.json", named_event_category=event_category, named_suspect=_W.PROJECT,
    )  # fmt: skip


_ROWS: tuple[Row, ...] = (
    Row("TASK_TIMEOUT", _T.TIMEOUT_TASK, _EXEC, _S.ERROR, _F.TIMEOUT, False,
        "The whole task ran longer than its `timeout`.",
        "Raise `timeout`, or look in the step table where the time went.", named_scope=Scope.TASK,
        named_artifact="partial_trace.json"),
    Row("STEP_TIMEOUT", _T.TIMEOUT_STEP, _EXEC, _S.ERROR, _F.TIMEOUT, True,
        "One attempt of a step ran longer than `step_timeout`.",
        "Look at the screenshot for what the step waited for, or raise `step_timeout`."),
    Row("PAGE_UNRESPONSIVE", _T.TIMEOUT_STEP, _INFRA, _S.CRITICAL, _F.BROWSER, True,
        "The page stopped answering: a script keeps its process busy.",
        "A script of the page runs in an endless loop or blocks; look at the console log and the last step that passed.",
        named_scope=Scope.PAGE, named_artifact="console_logs.txt", named_suspect=_W.SITE),
    _network("NET_DNS", _T.NETWORK_DNS_FAILURE, "The host name could not be resolved.",
             "Check the host's spelling and `[tool.harness.services]` hosts.", 2, suspect=_W.PROJECT),
    _network("NET_CONNECTION_REFUSED", _T.NETWORK_CONNECTION_REFUSED, "Nothing listens at the host's port.",
             "The site is down or not started: see `[tool.harness.services]` and the service's log."),
    _network("NET_TIMEOUT", _T.NETWORK_TIMEOUT, "The server accepted the connection and did not answer in time.",
             "The site hangs: look at its log, or raise `step_timeout`.", event_category="timeout"),
    _network("NET_CONNECTION_RESET", _T.UNKNOWN, "The server reset the connection.",
             "The site crashed, or a proxy cut the connection, or (over https) the site is down: look at its log."),
    _network("NET_EMPTY_RESPONSE", _T.UNKNOWN, "The server closed the connection without an answer.",
             "The site crashed while answering, or this port speaks https: look at its log."),
    _network("NET_OFFLINE", _T.UNKNOWN, "The browser is offline.",
             "See whether `offline: true` of a `browser` makes it so; otherwise check the machine's network.", suspect=_W.MACHINE),
    _network("NET_UNREACHABLE", _T.UNKNOWN, "No connection to the host's address could be made, so nothing was sent.",
             "Check the machine's network, the host's address, and whether a firewall blocks the connection.", suspect=_W.MACHINE),
    _network("NET_PROTOCOL", _T.UNKNOWN, "The server's answer is not valid HTTP.",
             "Another program may listen at this port, or the site's server is broken: look at its log; "
             "`context.net_error` says what is wrong with the answer.", 1),
    _network("NET_PROXY", _T.UNKNOWN, "The browser's proxy does not let the request through.",
             "Check `--proxy-server` in the browser's `args`, and that the proxy runs.", suspect=_W.MACHINE),
    _network("NET_FAILED", _T.UNKNOWN, "The browser could not load the page.",
             "`context.net_error` in the report is Chromium's own name for the cause."),
    _network("NET_BLOCKED", _T.UNKNOWN, "The browser refused to send the request.",
             "Check the URL's scheme and port, and whether the task may reach this site.", 0, suspect=_W.TASK),
    _network("NET_TLS", _T.UNKNOWN, "The site's certificate or TLS set-up is not accepted.",
             "`context.tls` says what is wrong (expired, unknown issuer, wrong host name, ...) and what to do about it.",
             0),
    _network("NET_TOO_MANY_REDIRECTS", _T.UNKNOWN, "The site redirects in a circle.",
             "The cause is often a lost login session or a wrong base URL.", 0),
    _network("CIRCUIT_OPEN", _T.UNKNOWN, "The site failed too often in a row, so it is left alone for a while: nothing was sent.",
             "`context.last_error` says how the site failed: look at its log. With `wait_for_circuit` in "
             "`on_network_error` the task waits for the site; `--task-breaker off` sends every request.",
             event_category="unavailable"),
    _network("HTTP_TIMEOUT", _T.NETWORK_TIMEOUT, "The site answered 408: it waited too long for the request.",
             "The site or a proxy in front of it is overloaded or cuts slow requests: look at its log.",
             event_category="timeout"),
    _network("HTTP_NOT_FOUND", _T.UNKNOWN, "The site has nothing at this URL (404 or 410).",
             "Check the step's URL and `base_url`, and whether the resource at this URL exists.", 0,
             event_category="not_found", suspect=_W.TASK),
    _network("HTTP_UNEXPECTED_STATUS", _T.UNKNOWN, "The status of the response is not the one that the step expects, or no page was requested.",
             "Compare the step's `status` with `context.status` and the body in the report.", 0,
             event_category="invalid", suspect=_W.SITE),
    _network("HTTP_RATE_LIMITED", _T.UNKNOWN, "The site answered 429 Too Many Requests.",
             "Run fewer tasks at once, or use a longer retry delay.", event_category="rate_limit", suspect=_W.PROJECT),
    _network("HTTP_UNAVAILABLE", _T.UNKNOWN, "The site answered 502, 503 or 504: the site or a server behind it is down.",
             "Look at the site's log.", event_category="unavailable"),
    _network("HTTP_SERVER_ERROR", _T.UNKNOWN, "The site answered with a server error (5xx).", "Look at the site's log."),
    _network("HTTP_CLIENT_ERROR", _T.UNKNOWN, "The site refused the request (4xx).",
             "Check the step's URL and the data that it sends.", 0, event_category="invalid", suspect=_W.TASK),
    _tool("TOOL_UNAVAILABLE", _T.UNKNOWN,
          "The tool server cannot be reached, is broken for good, or was lost in the middle of the call.",
          "`harness tools status` shows its state, and `harness tools logs` the end of its log. After its third crash it "
          "needs `harness tools restart`.", event_category="unavailable"),
    _tool("TOOL_TIMEOUT", _T.NETWORK_TIMEOUT, "The tool did not answer within the limit of its call, which was cancelled.",
          "Raise `timeout` or `timeouts` of the server in `[tool.harness.tools]`, or the step's own if it is shorter.",
          event_category="timeout"),
    _tool("TOOL_PROTOCOL", _T.UNKNOWN,
          "The answer of the tool server is not what the protocol demands, is too large, or asks for more input.",
          "The message says what is wrong with it: another program may answer in place of the server.", 0,
          event_category=VALIDATION),
    Row("TOOL_FAILED", _T.ACTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "The tool answered that it failed.",
        "The message has its words. If the failure is what you expect, declare `status: error`; if it passes by itself, "
        "`on_assertion_fail: retry_after_wait` calls the tool again.",
        named_artifact="error_report.json", named_event_category="tool_error", named_suspect=_W.PROJECT),
    Row("TOOL_AUTH", _T.AUTHENTICATION_FAILED, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The tool server refuses the credentials (401, or an error of OAuth), or they do not allow the call (403).",
        "Provide a token that is valid and has the right in `headers` or `environment` of the server, then run `harness tools restart`.",
        named_scope=Scope.ORIGIN, named_artifact="error_report.json", named_event_category="auth", named_suspect=_W.PROJECT),
    Row("TOOL_UNKNOWN", _T.ACTION_FAILED, _LOGIC, _S.ERROR, _F.NONE, False,
        "The server has no tool of this name, or the project names no such server.",
        "The message names similar ones; `harness tools list` shows all, and `harness validate --tools` checks the files.",
        named_artifact="error_report.json", named_event_category="not_found", named_suspect=_W.TASK),
    Row("TOOL_INVALID", _T.ACTION_FAILED, _LOGIC, _S.ERROR, _F.NONE, False,
        "The arguments do not fit the tool's schema. Nothing was done.",
        "Fix `arguments` as the message says; `harness validate --tools` checks them without calling the tool.",
        named_artifact="error_report.json", named_event_category="invalid", named_suspect=_W.TASK),
    Row("ELEMENT_NOT_FOUND", _T.ELEMENT_NOT_FOUND, _EXEC, _S.ERROR, _F.ELEMENT, True,
        "No element matched the selector in time.",
        "Compare the selector with dom_snapshot.html; declare `fallback_selectors` where the site's markup varies."),
    Row("FRAME_NOT_FOUND", _T.ELEMENT_NOT_FOUND, _EXEC, _S.ERROR, _F.ELEMENT, True,
        "The frame that the step names is not on the page.", "Check the step's `frame` against dom_snapshot.html."),
    Row("SELECTOR_AMBIGUOUS", _T.SELECTOR_AMBIGUOUS, _EXEC, _S.ERROR, _F.AMBIGUOUS, False,
        "The selector matches several elements, but the act needs exactly one.",
        "Make the selector match one element; the report lists the matches."),
    Row("ELEMENT_COVERED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "Another element covers the one to act on.", "Close the covering element first; the report names it."),
    Row("ELEMENT_DISABLED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The element is disabled or read-only.", "An earlier step did not do what the page needs to enable the element.", named_suspect=_W.TASK),
    Row("ELEMENT_HIDDEN", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The element exists but is not visible, or it is outside the view.",
        "Make the element visible first (open its menu or tab), or select the visible one.", named_suspect=_W.TASK),
    Row("ELEMENT_UNSTABLE", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The element keeps moving or is re-created all the time.", "Wait for the page to settle before this step."),
    Row("OPTION_NOT_FOUND", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The list has no such option.", "Compare the step's `value` with the options in dom_snapshot.html.", named_suspect=_W.TASK),
    Row("DIALOG_BLOCKED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "A dialog blocks the page: it was answered with staying on the page, or new dialogs open without end.",
        "The report's `dialogs` say what was asked and answered; a `dialog` step before this one chooses the answer.", named_suspect=_W.TASK),
    Row("DIALOG_MISSING", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "A `dialog` step declares a dialog, and none took its answer by the end of the next step.",
        "If the dialog does not always come, write `optional: true` at the `dialog` step. If another dialog came, compare "
        "its text with `message`."),
    Row("NAVIGATION_INTERRUPTED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The page navigated elsewhere while the step was opening a URL.",
        "A script of the page navigates by itself: open its target URL, or wait for that page before the next step.", named_suspect=_W.TASK),
    Row("DOWNLOAD_FAILED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "No download started, or its file is not the expected one.",
        "Check that the element starts a download, and compare the file name."),
    Row("ACTION_FAILED", _T.ACTION_FAILED, _EXEC, _S.ERROR, _F.ACTION, True,
        "The act could not be performed.", "The report has the browser's own words in `context.call_log`."),
    Row("INVALID_INPUT", _T.ACTION_FAILED, _LOGIC, _S.ERROR, _F.NONE, False,
        "The step asks for something that cannot be done: a bad selector, key, file or kind of element.",
        "Fix the step as the message says.", named_event_category="invalid", named_suspect=_W.TASK),
    Row("SPEC_INVALID", _T.PRECONDITION_NOT_MET, _LOGIC, _S.ERROR, _F.NONE, False,
        "The task's file cannot be loaded, so nothing of it ran.",
        "Correct the file where the message says; `harness validate` checks it without a run.",
        named_artifact="error_report.json", named_event_category=VALIDATION, named_suspect=_W.TASK),
    Row("ROUTE_UNANSWERED", _T.ACTION_FAILED, _LOGIC, _S.ERROR, _F.NONE, False,
        "A request matched one of the task's `routes`, which could not answer it.",
        "Record the request into the HAR file, narrow the route's `url`, or let it pass with `missing: pass`.",
        named_artifact="network_logs.har", named_suspect=_W.TASK),
    Row("ASSERTION_FAILED", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "A step's assertion does not hold.", "If the page needs time, use `expect_timeout: 5`, or EVENTUALLY(...) in an `expr`."),
    Row("CRITERIA_UNMET", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "The steps passed, but a success criterion does not hold.",
        "If the page needs time, use `expect_timeout: 5`, or EVENTUALLY(...) in the criterion."),
    Row("REQUEST_EXPECTED", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "The step's act was done, but no page sent the request that `expect_request` names.",
        "Compare `expect_request` with the requests in the report; a request that comes late needs a longer `within`.",
        named_artifact="network_logs.har"),
    Row("ACCESSIBILITY_VIOLATIONS", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.ASSERTION, True,
        "The page violates rules of accessibility that an `accessibility` step checks.",
        "The message names the elements, and files/accessibility has the whole result of axe-core.",
        named_artifact="dom_snapshot.html"),
    Row("INCOMPLETE", _T.ASSERTION_FAILED, _LOGIC, _S.ERROR, _F.NONE, False,
        "The task passed, but a memory entry or artifact that it names is missing (`--taskspec-strict`).",
        "Add a step that writes what `memory_keys` and `artifacts` name, or remove the name.", named_suspect=_W.TASK),
    Row("FIXTURE_FAILED", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The task passed, and a fixture of its test failed when it was torn down.",
        "The report of pytest has the fixture's traceback; screenshot and trace show the end of the task.",
        named_suspect=_W.PROJECT),
    Row("HOOK_FAILED", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "A step of `before_each` failed, or one of `after_each` after a task that had passed.",
        "The message names the step and its own failure: mend the step group. `before_each: []` or `after_each: []` in "
        "a task leaves these steps out.",
        named_artifact="screenshot.png", named_suspect=_W.PROJECT),
    Row("TEST_ERROR", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "An ordinary test, or one of its fixtures, raised an error that is neither an assertion nor one of Playwright.",
        "Read the traceback: the error is in the code of the test, or in what it calls.",
        named_artifact="error_report.json", named_suspect=_W.TASK),
    Row("PRECONDITION_NOT_MET", _T.PRECONDITION_NOT_MET, _LOGIC, _S.WARNING, _F.PRECONDITION, False,
        "A precondition does not hold, so the task was not started.",
        "Set up the state that the task needs: in `memory:`, by a task that it depends on, or in the environment."),
    Row("STATE_INCONSISTENT", _T.STATE_INCONSISTENCY, _LOGIC, _S.ERROR, _F.INCONSISTENCY, False,
        "Memory and environment have different values in one of `state_bindings`.",
        "Compare memory_snapshot.json with env_snapshot.json; `on_state_inconsistency` says which one to trust.",
        named_artifact="env_snapshot.json"),
    Row("MEMORY_MISSING", _T.STATE_INCONSISTENCY, _LOGIC, _S.ERROR, _F.NONE, False,
        "A step needs a memory entry that was never written.", "Check `remember:` of the earlier steps, or `memory:`.",
        named_scope=Scope.WORLD, named_artifact="memory_snapshot.json", named_suspect=_W.TASK),
    Row("NOTHING_TO_REMEMBER", _T.ELEMENT_NOT_FOUND, _EXEC, _S.ERROR, _F.NONE, False,
        "The step was done, but the value that it should `remember` did not appear.",
        "Compare the `remember` expression with dom_snapshot.html and env_snapshot.json.", named_suspect=_W.TASK),
    Row("AUTHENTICATION_FAILED", _T.AUTHENTICATION_FAILED, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The site refused the login (401 or 403), or a proxy did (407).", "Check the account that the task uses; if the refusal is wanted, write its status at the step, such as `status: 403`.",
        named_artifact="screenshot.png", named_event_category="auth", named_suspect=_W.PROJECT),
    Row("SESSION_LOST", _T.AUTHENTICATION_FAILED, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The site shows its login page although the task was logged in or had just sent its password.",
        "The account was refused or logged out: check its password, and whether another test uses it.",
        named_scope=Scope.CONTEXT, named_artifact="screenshot.png",
        named_event_category="auth", named_suspect=_W.PROJECT),
    Row("LOGIN_FAILED", _T.AUTHENTICATION_FAILED, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The login that the task names could not be made, or does not hold after it was made.",
        "The message says why, and names the folder beside that of the task which has the screenshot, page and trace of the login.",
        named_event_category="auth", named_suspect=_W.PROJECT),
    Row("DATA_CORRUPTION", _T.UNKNOWN, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The environment's document no longer parses, or it breaks the schema that the project declares for its channel.",
        "The site has damaged its own state: see env_snapshot.json and the message. Nothing is retried, so the state stays as it is.",
        named_scope=Scope.WORLD, named_suspect=_W.SITE),
    Row("BUDGET_EXCEEDED", _T.BUDGET_EXCEEDED, _FATAL, _S.ERROR, _F.NONE, False,
        "The task used up what its `budget` allows.", "The message names the limit: raise it in `budget` of the task file, or look in the step table what used it up.",
        named_artifact="partial_trace.json", named_suspect=_W.TASK),
    Row("AGENT_FAILED", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent raised an error while it chose the next step.", "The report has its stack trace; the site is not to blame.",
        named_scope=Scope.AGENT, named_event_category="agent_crash", named_suspect=_W.AGENT),
    Row("AGENT_UNAVAILABLE", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent could not be created: its module, the name in that module or its options are wrong.",
        "Fix the agent or its table in `[tool.harness.agents]`; the message says what is wrong.",
        named_scope=Scope.AGENT, named_suspect=_W.PROJECT),
    Row("AGENT_TIMEOUT", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent did not choose a step in time.", "Look at the agent, or raise its `timeout` in `[tool.harness.agents]`.",
        named_scope=Scope.AGENT, named_event_category="timeout", named_suspect=_W.AGENT),
    Row("AGENT_INVALID_STEP", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent proposed something that is not a step.", "The message says what is wrong with the proposal.",
        named_scope=Scope.AGENT, named_event_category=VALIDATION, named_suspect=_W.AGENT),
    Row("AGENT_STUCK", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent proposed the same failing step three times.", "Look in the step table what it kept trying.",
        named_scope=Scope.AGENT, named_suspect=_W.AGENT),
    _model("MODEL_RATE_LIMITED", True, "The provider of the model asks for fewer requests (429), also after the retries.",
           "Run fewer tasks at once, lower `pace` of the model, or give it a `fallback`.", event_category="rate_limit"),
    _model("MODEL_OVERLOADED", True, "The provider of the model is overloaded (529), also after the retries.",
           "Run it again later, or give the model a `fallback`.", event_category="unavailable"),
    _model("MODEL_UNAVAILABLE", True,
           "The model's provider is down, cannot be reached, or failed so often in a row that it is left alone for a while.",
           "The message has the provider's answer. Check `base_url`, or give the model a `fallback`.",
           event_category="unavailable"),
    _model("MODEL_TIMEOUT", True, "The model's answer did not begin, go on, or end in time.",
           "Raise `limits` of the model in `[tool.harness.models]`, or give it a `fallback`.", event_category="timeout"),
    _model("MODEL_AUTH", False, "The provider does not accept the key of the model (401, 403), or no key is set.",
           "Check the variable that `key` of the model names.", event_category="auth"),
    _model("MODEL_QUOTA", False, "The account at the provider of the model has no credit left.",
           "Top up the account, or give the model a `fallback` at another provider.", event_category="auth"),
    _model("MODEL_REJECTED", False, "The provider refuses the request to the model as invalid.",
           "The message has the provider's reason: often the model lacks a feature, such as tools or images.",
           event_category="invalid"),
    _model("MODEL_NOT_FOUND", False, "The provider has no such model, or the settings have none of this name.",
           "Check `model` and `base_url` of the model in `[tool.harness.models]`.", event_category="not_found"),
    _model("MODEL_CONTEXT_OVERFLOW", False, "The prompt is longer than the context window of the model, also after it was shortened.",
           "Let the agent show less of the page, or use a model with a larger context window.", event_category="overflow"),
    _model("MODEL_REFUSED", False, "The model, or a filter of its provider, refused to answer.",
           "The message has its words. Look at the goal and at the page for what it may have refused."),
    _model("MODEL_GARBLED", True, "The answer of the model cannot be read, or is not what was asked for, also when it was asked again.",
           "The message says what is wrong with it. If no model has written it (a web page, a redirection), check `base_url`; "
           "else a larger `max_output`, or a stronger model, may help.", event_category=VALIDATION),
    Row("MODEL_CASSETTE_MISS", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, False,
        "Only recordings may answer for the model, and none fits the request (or the file of recordings is broken).",
        "The message has the first line that differs. Record the task anew: `pytest --task-models record`.",
        named_scope=Scope.TASK, named_event_category="invalid", named_suspect=_W.PROJECT),
    _model("MODEL_UNPRICED", False, "The task has `max_cost` in its `budget`, but the price of the model is not known.",
           "Set `price` of the model in `[tool.harness.models]`, or use `max_tokens` in place of `max_cost`.",
           event_category="invalid"),
    Row("AGENT_GAVE_UP", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent ended the task because it could not reach the goal.", "The message has the agent's own reason.",
        named_scope=Scope.AGENT, named_suspect=_W.AGENT),
    Row("AGENT_STALE_REF", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent named an element by a ref of an earlier view of the page, and nothing was done.",
        "The page has changed since: look at it again and take the ref of the new view.",
        named_scope=Scope.AGENT, named_suspect=_W.AGENT),
    Row("AGENT_LOST", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, False,
        "The agent that runs elsewhere went away in the middle of the task and did not come back in time.",
        "Look at the agent's own log; the step table shows how far it came. `grace` in `[tool.harness.serve]` waits longer.",
        named_scope=Scope.AGENT, named_event_category="agent_crash", named_suspect=_W.AGENT),
    Row("AGENTS_EXHAUSTED", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent failed, and so did every agent that was to go on in its place.",
        "`context.tried` names each agent and its failure, in order; begin with the first.",
        named_scope=Scope.AGENT, named_suspect=_W.AGENT),
    Row("PAGE_CRASHED", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.BROWSER, False,
        "The page's process crashed.", "Often it ran out of memory: look at the console log.", named_scope=Scope.PAGE,
        named_artifact="console_logs.txt"),
    Row("PAGE_CLOSED", _T.UNKNOWN, _INFRA, _S.ERROR, _F.BROWSER, False,
        "The site closed its page (`window.close()`), and no other page is open, or the step was under way in it.",
        "The page is not opened again. If the site should not close it, look at what the step before did.",
        named_scope=Scope.PAGE, named_suspect=_W.SITE),
    Row("BROWSER_CRASHED", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.BROWSER, False,
        "The browser is gone.", "It crashed or was killed: look at the machine's memory."),
    Row("BROWSER_UNRESPONSIVE", _T.TIMEOUT_STEP, _INFRA, _S.CRITICAL, _F.BROWSER, False,
        "The browser itself, or Playwright's driver before it, stopped answering.",
        "The machine is overloaded, or one of them is stopped or hangs: `driver` among the details says that it is the driver."),
    Row("BROWSER_LAUNCH_FAILED", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "The browser could not be started.", "The message has the browser's own words.", named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("BROWSER_ENDPOINT_DOWN", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, True,
        "No endpoint of `--task-browser-endpoint` provides a browser at the moment.",
        "The message gives the reason for each endpoint. Start its server (`python -m playwright run-server --unsafe`) or name another.",
        named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("BROWSER_ENDPOINT_UNFIT", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "The browser at an endpoint of `--task-browser-endpoint` cannot do what the task needs.",
        "The message says why: another version of Playwright, a missing executable, no `--unsafe`, no display, unreachable hosts of this machine, or a fault that it cannot do.",
        named_scope=Scope.RUN, named_suspect=_W.PROJECT),
    Row("WEBMCP_MISSING", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, False,
        "A step calls a tool of the page, but in this browser the page can offer none.",
        "Pages offer tools in Chromium 149 and newer; to a browser that is started elsewhere give `--enable-features=WebMCP`.", named_suspect=_W.MACHINE),
    Row("DRIVER_GONE", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.BROWSER, False,
        "Playwright's driver process is gone.", "It was killed: look at the machine's memory.",
        named_scope=Scope.DRIVER),
    Row("CHANNEL_UNREADABLE", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NETWORK, True,
        "An environment channel could not be read or written.", "Check `[tool.harness.channels]` and that the service is up.",
        DEFAULT_RETRIES, named_scope=Scope.WORLD, named_artifact="env_snapshot.json", named_suspect=_W.PROJECT),
    Row("RESET_FAILED", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "Under `isolation = \"reset\"` the state of the system under test could not be reset before the task.",
        "Make sure that the channel answers `POST <url>/reset`, or declare in `reset` of [tool.harness] what resets the state.",
        named_scope=Scope.WORLD, named_suspect=_W.PROJECT),
    Row("EPISODE_STATE_LOST", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, False,
        "Another task ran between two tasks of an episode, and the state that they share was reset for it.",
        "Order the tasks so that no other task runs between those of the episode (see `dependencies`, or the order in Python).",
        named_scope=Scope.WORLD, named_suspect=_W.PROJECT),
    Row("STORAGE_UNREADABLE", _T.UNKNOWN, _INFRA, _S.ERROR, _F.NONE, False,
        "The cookies, localStorage and IndexedDB of the browser, with which a login or an episode goes on, could not be read within the limit of a step, or not be put back within the time of the task.",
        "Raise `step_timeout` of the task that leaves it (of a login: in its file, or in [tool.harness.defaults]), or let the site keep less in the browser.",
        named_scope=Scope.CONTEXT, named_suspect=_W.SITE),
    Row("SERVICE_DOWN", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "A site under test could not be started, or crashed three times within five minutes.",
        "See the end of its log, and try it alone: `harness services start`.", named_scope=Scope.ORIGIN,
        named_event_category="unavailable", named_suspect=_W.PROJECT),
    Row("ARTIFACTS_UNWRITABLE", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "The folder for the task's files could not be created, so the task was not started.",
        "Free space on the disk of `artifacts`, or make the folder writable; the message names the folder.",
        named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("OUTCOME_UNKNOWN", _T.UNKNOWN, _LOGIC, _S.CRITICAL, _F.NONE, False,
        "A `write` step failed, and nobody can tell whether it took effect, so it was not repeated.",
        "Give the step a `done_when` criterion that tells whether it took effect.",
        named_artifact="network_logs.har", named_suspect=_W.SITE),
    Row("POLICY_DOMAIN", _T.UNKNOWN, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The task tried to leave its `allowed_domains`.", "Add the host to `allowed_domains` if the task may go there.", named_suspect=_W.TASK),
    Row("POLICY_ACT", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "The agent proposed an act that its policy does not allow.",
        "Choose another act, or add it to `policy.acts` of the agent in `[tool.harness.agents]`. A tool of a server must be offered to agents: `agents = true` in `[tool.harness.tools.<name>]`.",
        named_event_category=VALIDATION, named_suspect=_W.AGENT),
    Row("POLICY_WRITE", _T.UNKNOWN, _LOGIC, _S.ERROR, _F.NONE, False,
        "A step of the agent would have changed something that the task does not declare. It was held back.",
        "If the task is to do that, declare it in `allowed_writes` (a request, an element or a tool), or as a step with `effect: write`.",
        named_artifact="network_logs.har", named_suspect=_W.AGENT),
    Row("POLICY_TOOL", _T.UNKNOWN, _FATAL, _S.CRITICAL, _F.NONE, False,
        "The project does not allow this tool to be called: it is not among `allow` of its server.",
        "Add the tool to `allow` in `[tool.harness.tools.<name>]` if it may be called.",
        named_artifact="error_report.json", named_suspect=_W.PROJECT),
    Row("INTERRUPTED", _T.UNKNOWN, _FATAL, _S.WARNING, _F.NONE, False,
        "The run was interrupted (Ctrl-C, or its process was ended).", "Run it again.", named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("WORKER_CRASHED", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "The process that ran the task died: a worker of pytest-xdist, or a slot of a cluster.", "Often the machine ran out of memory or the process was killed: look at the machine's log.",
        named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("WORKER_CUT_OFF", _T.UNKNOWN, _INFRA, _S.CRITICAL, _F.NONE, False,
        "It could not be recorded outside of this machine that the task begins to write, so the step was not begun: nothing was sent.",
        "Look at the network between this machine and the store of the run (`--task-store`), or the driver of the cluster (`--task-cluster`); then run it again.",
        named_scope=Scope.RUN, named_suspect=_W.MACHINE),
    Row("INTERNAL_ERROR", _T.UNKNOWN, _INFRA, _S.FATAL, _F.NONE, False,
        "The harness itself failed.", "Please report it, with the stack trace of the report.", named_scope=Scope.RUN,
        named_artifact="error_report.json", named_suspect=_W.MACHINE),
    Row("UNKNOWN", _T.UNKNOWN, _EXEC, _S.ERROR, _F.NONE, False,
        "The failure fits no known kind.", "The report has the browser's own words; please report the case.",
        named_artifact="error_report.json", named_suspect=_W.SITE),
)  # fmt: skip

CATALOG: dict[str, Row] = {entry.code: entry for entry in _ROWS}


def row(code: str) -> Row:
    """Return the catalog's row of a code; raises KeyError for an unknown code."""
    return CATALOG[code]
