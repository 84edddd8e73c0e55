"""The part of this machine: of a CI matrix, or of the indices of a job."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from collections.abc import Mapping

from msgspec import Struct

_ENVIRONMENT = "env"
"""The value of `--task-shard` that asks the environment."""
_COUNT = "TASK_SHARDS"
"""The variable that says the number of parts where the system that started the run does not."""


def _are_numbers(*texts: str) -> bool:
    return all(re.fullmatch("[0-9]{1,9}", text) for text in texts)


class Shard(Struct, frozen=True):
    """The part of this machine."""

    number: int
    """The number of the part; 1 for the first."""
    count: int

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str] = os.environ) -> Shard:
        """Parse `2/3`, or `env`; raises ArgumentTypeError for other texts, and if the environment names no part."""
        if text == _ENVIRONMENT:
            return part_in(environ)
        number, slash, count = text.partition("/")
        if slash and _are_numbers(number, count) and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise ArgumentTypeError(
            f"{text!r} is not a part such as 2/3: expected I/N, with I from 1 to N, or {_ENVIRONMENT}"
        )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


# `--task-shard env`: the part that the system which started this process has given it.


class _System(Struct, frozen=True):
    """The variables of a system that starts several processes of one job."""

    name: str
    index: str
    count: str = _COUNT
    first: int = 0
    """The lowest index."""


_SYSTEMS = (
    _System("Kubernetes (an Indexed Job)", "JOB_COMPLETION_INDEX"),
    _System("AWS Batch (an array job)", "AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"),
    _System("GitLab, Semaphore", "CI_NODE_INDEX", "CI_NODE_TOTAL", first=1),
    _System("CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL"),
    _System("Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT"),
)
_SLURM = "SLURM_ARRAY_TASK_ID"


def part_in(environ: Mapping[str, str]) -> Shard:
    """The part that the environment names. Raises ArgumentTypeError if it names none, or several."""
    parts = [(_part_of(each, environ), each.index) for each in _SYSTEMS if environ.get(each.index)]
    if environ.get(_SLURM):
        parts.append((_part_of_slurm(environ), _SLURM))
    found = {str(shard): (shard, variable) for shard, variable in parts}
    if len(found) == 1:
        return next(iter(found.values()))[0]
    if found:
        told = ", ".join(f"{variable} says {shard}" for shard, variable in found.values())
        raise ArgumentTypeError(f"the environment names several parts ({told}): give the part itself, as I/N")
    known = ", ".join((*(f"{each.index} ({each.name})" for each in _SYSTEMS), f"{_SLURM} (Slurm)"))
    raise ArgumentTypeError(f"the environment names no part; expected one of {known}")


def _part_of(system: _System, environ: Mapping[str, str]) -> Shard:
    count = environ.get(system.count) or environ.get(_COUNT)
    if not count:
        needed = system.count if system.count == _COUNT else f"{system.count} or {_COUNT}"
        raise ArgumentTypeError(f"{system.index} is set, but not the number of parts: set {needed}")
    return _shard(environ[system.index], count, system.first, system.index)


def _part_of_slurm(environ: Mapping[str, str]) -> Shard:
    """The part of an array job. Its lowest index is a part of its own only if the array is whole."""
    count, least = environ.get("SLURM_ARRAY_TASK_COUNT", ""), environ.get("SLURM_ARRAY_TASK_MIN", "0")
    most = environ.get("SLURM_ARRAY_TASK_MAX", "")
    whole = _are_numbers(count, least, most) and int(most) - int(least) + 1 == int(count)
    if not whole or environ.get(_COUNT, count) != count:
        raise ArgumentTypeError(
            f"{_SLURM} is of an array with gaps, or of a part of an array: give the part itself, as I/N"
        )
    return _shard(environ[_SLURM], count, int(least), _SLURM)


def _shard(index: str, count: str, first: int, variable: str) -> Shard:
    if _are_numbers(index, count) and 0 <= int(index) - first < int(count):
        return Shard(int(index) - first + 1, int(count))
    known = _are_numbers(count) and int(count) > 0
    last = f"{int(count) - 1 + first}" if known else f"the number of parts, which is {count[:20]!r}"
    raise ArgumentTypeError(f"{variable} is {index[:20]!r}: expected a number from {first} to {last}")
