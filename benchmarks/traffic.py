"""Counts the messages to Playwright's driver: a figure that a busy machine does not change."""

from __future__ import annotations

from collections import Counter
from typing import Any

from playwright._impl.connection import Connection


class Traffic:
    """The messages of all connections of this process, from the start of counting."""

    def __init__(self) -> None:
        self.methods: Counter[str] = Counter()
        self._counts = False

    def count(self) -> None:
        """Start counting; once for the process."""
        if self._counts:
            return
        self._counts = True
        inner: Any = Connection.send_message_to_server

        def counted(connection: Connection, owner: Any, method: str, *rest: Any, **named: Any) -> Any:
            self.methods[method] += 1
            return inner(connection, owner, method, *rest, **named)

        Connection.send_message_to_server = counted  # type: ignore[method-assign, assignment]


TRAFFIC = Traffic()
