"""The values of the options `--task-cluster` and `--task-cluster-slots`."""

from __future__ import annotations

from argparse import ArgumentTypeError

from msgspec import Struct

_MOST_SLOTS = 1000
"""The largest number of slots of a run."""


class ClusterPlace(Struct, frozen=True):
    """Which cluster runs the tasks."""

    text: str
    address: str
    """What Ray calls it."""
    local: int = 0
    """The number of slots of a cluster that is started here; 0: it runs already."""
    host: str = ""
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> ClusterPlace:
        """Parse `auto`, `HOST:PORT` or `local:N`; raises ArgumentTypeError for other texts."""
        if text == "auto":
            return cls(text, "auto")
        host, colon, number = text.rpartition(":")
        if host.startswith("ray:"):
            raise ArgumentTypeError(
                f"{text!r}: Ray Client is not supported, since a run would end with its connection. Submit the run "
                "into the cluster: ray job submit --working-dir . -- pytest ... --task-cluster auto"
            )
        if not (colon and host and number.isdecimal()):
            raise ArgumentTypeError(f"{text!r} is no cluster: expected auto, HOST:PORT or local:N")
        if host == "local":
            if not 1 <= int(number) <= _MOST_SLOTS:
                raise ArgumentTypeError(f"{text!r}: expected local:N, with N from 1 to {_MOST_SLOTS}")
            return cls(text, "local", local=int(number))
        if not 1 <= int(number) <= 65535:
            raise ArgumentTypeError(f"{text!r}: {number} is no port")
        return cls(text, text, host=host.strip("[]"), port=int(number))

    def __str__(self) -> str:
        return self.text


class SlotRange(Struct, frozen=True):
    """How many slots a run uses."""

    fewest: int
    most: int

    @classmethod
    def parse(cls, text: str) -> SlotRange:
        """Parse `4` or `2:20`; raises ArgumentTypeError for other texts."""
        fewest, colon, most = text.partition(":")
        most = most if colon else fewest
        if fewest.isdecimal() and most.isdecimal() and 1 <= int(fewest) <= int(most) <= _MOST_SLOTS:
            return cls(int(fewest), int(most))
        raise ArgumentTypeError(f"{text!r} is no number of slots: expected N or MIN:MAX, from 1 to {_MOST_SLOTS}")
