"""The `refuse` faults of one host: its gate is closed as long as one of them lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.faults.gate import Gate


@dataclass(eq=False)
class Refusal:
    """One that is on. `left` counts the connections still to be refused; None: it ends by time."""

    left: int | None
    met: Callable[[], None]
    """Told of each connection that was refused."""


@dataclass
class Refusals:
    """Opens and closes one gate. `listen` of the gate raises OSError when its port was taken meanwhile."""

    gate: Gate
    active: list[Refusal] = field(default_factory=list)

    def begin(self, connections: int | None, met: Callable[[], None]) -> Refusal:
        refusal = Refusal(connections, met)
        self.active.append(refusal)
        self.gate.refuse()
        return refusal

    def end(self, refusal: Refusal) -> None:
        """The gate opens again when this was the last one."""
        if refusal in self.active:
            self.active.remove(refusal)
        if not self.active:
            self.gate.listen()

    def count(self) -> None:
        """A connection was refused: the oldest that counts has one less to come; else one by time met it."""
        counting = [refusal for refusal in self.active if refusal.left is not None]
        for refusal in (*counting, *self.active)[:1]:
            refusal.met()
            if refusal.left is not None:
                refusal.left -= 1
                if refusal.left == 0:
                    self.end(refusal)
