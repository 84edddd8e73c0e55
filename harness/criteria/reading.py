"""What a value of the syntax tree comes to, in one pass over the sources."""

from __future__ import annotations

from collections.abc import Mapping

from harness.criteria.memory import memory_lookup
from harness.criteria.operand import Operand, judge
from harness.criteria.paths import Wildcard, lookup, segments
from harness.criteria.sources import Pass
from harness.criteria.syntax import Compare, Json, Length, ListOf, Literal, ObjectOf, Read, Value, oriented
from harness.criteria.values import moment_in
from harness.criteria.vocabulary import PAGE_FUNCTIONS


async def read(value: Value, reads: Pass) -> Operand:
    """Reads what the value needs. What the sources raise passes through."""
    match value:
        case Literal(value=constant):
            return Operand((constant,))
        case ListOf(items=items):
            return Operand(([(await read(item, reads)).json for item in items],))
        case ObjectOf(entries=entries):
            return Operand(({key: (await read(item, reads)).json for key, item in entries},))
        case Length(of=of):
            return _length(await read(of, reads), of.source)
        case Read(function=function, arguments=arguments):
            return await _call(function, arguments, reads)
        case Compare():
            operator, left, right = oriented(value)
            sides = await read(left, reads), await read(right, reads)
            return Operand((judge(operator, *sides, reads.patience)[0],))


async def _call(function: str, arguments: tuple[str, ...], reads: Pass) -> Operand:
    if function in PAGE_FUNCTIONS:
        return await _page(function, arguments, reads)
    if function == "json":
        return await _json(arguments[0], arguments[1], reads)
    entries = await reads.memory()
    return _memory(arguments[0], entries) if function == "mem" else _time(function, arguments[0], entries, reads)


async def _page(function: str, arguments: tuple[str, ...], reads: Pass) -> Operand:
    found = await reads.page(function, *arguments)
    if found is not None:
        return Operand((found,))
    what = f"no element matches {arguments[0]!r}" if arguments else f"the page has no {function}"
    return Operand((), what + (f", or it has no {arguments[1]!r}" if len(arguments) > 1 else ""))


async def _json(name: str, path: str, reads: Pass) -> Operand:
    matches = tuple(lookup(await reads.channel(name), path))
    return Operand(matches, "" if matches else f"nothing is at {path!r} in channel {name!r}", _many(path))


def _memory(key: str, entries: Mapping[str, Json]) -> Operand:
    matches = tuple(memory_lookup(entries, key))
    return Operand(matches, "" if matches else f"memory has no {key!r}", key not in entries and _many(key))


def _many(path: str) -> bool:
    return any(isinstance(segment, Wildcard) for segment in segments(path))


def _time(function: str, key: str, entries: Mapping[str, Json], reads: Pass) -> Operand:
    """Seconds between now and the time that a memory entry holds."""
    entry = _memory(key, entries)
    moments = [moment for match in entry.matches if (moment := moment_in(match)) is not None]
    if entry.matches and not moments:
        return Operand((), f"memory {key!r} holds no ISO time", entry.many)
    sign = 1 if function == "time_since" else -1
    seconds = tuple(sign * (reads.now() - moment).total_seconds() for moment in moments)
    return Operand(seconds, entry.note, entry.many)


def _length(of: Operand, source: str) -> Operand:
    lengths = tuple(len(match) for match in of.matches if isinstance(match, str | list | dict))
    note = of.note if lengths or not of.matches else f"{source} is no text, list or object and has no length"
    return Operand(lengths, note, of.many)
