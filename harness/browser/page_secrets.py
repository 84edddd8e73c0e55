"""What pages authorize themselves by is a secret as soon as it is there: their cookies and `Authorization` headers."""

from __future__ import annotations

from harness.browser.bounded import bounded
from harness.browser.context import Tab
from harness.browser.page_events import PageEvents
from harness.task_secrets import is_session_value, learn, secrets_of_header

SECONDS = 0.5


class PageSecrets:
    """Learns the secrets of one task's pages before a text of theirs is told. It costs nothing without requests."""

    def __init__(self) -> None:
        self._watch: PageEvents | None = None
        self._requests = self._answers = 0
        """The requests and answers of this context until the last look."""

    async def learn(self, tab: Tab, scale: float = 1.0) -> None:
        """Learn what requests have sent since the last call, and which cookies answers have set. It never raises."""
        if tab.watch is not self._watch:
            self._watch, self._requests, self._answers = tab.watch, 0, 0
        if new := tab.watch.requests - self._requests:
            self._requests += new
            for exchange in list(tab.watch.exchanges)[-new:]:
                headers = exchange.asked.headers if exchange.asked else {}
                if "authorization" in headers:
                    learn(*secrets_of_header("authorization", headers["authorization"]))
        if tab.watch.answers == self._answers:
            return
        self._answers = tab.watch.answers
        cookies = await bounded(tab.context.cookies(), SECONDS * scale, ())  # a browser that is gone has told nothing
        learn(*(value for each in cookies if is_session_value(value := each.get("value", ""))))
