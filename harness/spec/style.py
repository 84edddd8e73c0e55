"""One style for the files of tasks and step groups: what `harness fmt` writes.

Texts are cut out of the file and put elsewhere, and nothing is dumped: so values keep their quotes, and comments,
anchors and blank lines stay. What cannot be moved without a loss stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeGuard

import yaml
from msgspec import Struct

from harness.spec.file_names import HOOKS, is_short, is_use
from harness.spec.problems import JsonPath
from harness.spec.readers import read_yaml
from harness.spec.recorded.text import WIDEST, scalar
from harness.spec.short_forms import ShortFormError, in_long_form, long_steps, same_steps, short_step
from harness.spec.validation import value_at

_OF_BRACES = re.compile(r"[\[\]{},]|:(?=\s|$)|\s#")
"""What a text without quotes may have in a block, and not in braces."""
_JOINED = 100
"""Columns up to which fields that are typed one after another stand in one step."""
_TEXT_BLOCKS = ("|", ">")
_BLANK = re.compile(r"\n\s*\Z")
_WIDE_ITEM = re.compile(r"(?<=-) {2,}\Z")
_NEXT_ITEM = re.compile(r"\n *- *")


class _Edit(Struct, frozen=True):
    start: int
    end: int
    text: str


def in_style(text: str, *, long: bool = False) -> str:
    """The text of a YAML file in the one style, with steps in their short form, or with `long` in the long one."""
    passes: Sequence[Callable[[str], Iterable[_Edit]]] = (
        (_indented, _one_a_line, _lengthened, _tidied)
        if long
        else (_indented, _one_a_line, _shortened, _joined, _tidied)
    )
    for find in passes:
        for edit in sorted(find(text), key=lambda each: each.start, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def means_the_same(text: str, other: str) -> bool:
    """Return whether two texts of a file have the same data, and steps whose long forms are the same."""
    one, two = _lengths_apart(text), _lengths_apart(other)
    return one[0] == two[0] and all(map(same_steps, one[1], two[1])) and len(one[1]) == len(two[1])


def _lengths_apart(text: str) -> tuple[str, list[Any]]:
    """The data of a file without its steps, and its lists of steps in their long form."""
    data, lists = read_yaml(text), []
    for holder in (data, *(each for key in ("repairs", "handlers") for each in data.get(key) or ())):
        lists += [in_long_form(holder.pop(key, None) or []) for key in ("steps", *HOOKS)]
    return json.dumps(data, sort_keys=True), lists


# Nodes of the file.


def _compose(text: str) -> yaml.CollectionNode:
    """The nodes of a file whose top level is a mapping."""
    found = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(found, yaml.MappingNode)
    return found


def _inner(node: yaml.Node) -> list[yaml.Node]:
    """The nodes in a collection, as they stand in the file."""
    if isinstance(node, yaml.MappingNode):
        return list(chain.from_iterable(node.value))
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _is_block(node: yaml.Node) -> TypeGuard[yaml.CollectionNode]:
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _start(node: yaml.Node) -> int:
    return int(node.start_mark.index)


def _end(node: yaml.Node) -> int:
    """Where a node ends, without the comments after a block and without line breaks at the end."""
    if _is_block(node) and node.value:
        return _end(_inner(node)[-1])
    end, text = int(node.end_mark.index), node.end_mark.buffer or ""
    return len(text[:end].rstrip("\n")) if getattr(node, "style", None) in _TEXT_BLOCKS else end


def _is_here(node: yaml.Node, parent: yaml.Node) -> bool:
    """Return whether a node and all in it stand where they are used. An alias stands elsewhere."""
    inner = _inner(node)
    return (
        parent.start_mark.index <= _start(node) <= node.end_mark.index <= parent.end_mark.index
        and all(one.end_mark.index <= _start(other) for one, other in pairwise(inner))
        and all(_is_here(each, node) for each in inner)
    )


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    inner = _inner(node)
    yield from chain.from_iterable(map(_leaves, inner)) if inner else (node,)


def _has_comment(text: str, nodes: Iterable[yaml.Node]) -> bool:
    leaves = list(chain.from_iterable(map(_leaves, nodes)))
    return any("#" in text[one.end_mark.index : _start(other)] for one, other in pairwise(leaves))


def _lists(text: str) -> Iterator[tuple[JsonPath, yaml.SequenceNode]]:
    """The lists of steps in a file with their paths: those of the task, of its repairs and of its handlers."""
    root, data = _compose(text), read_yaml(text)
    seen: list[yaml.Node] = []
    parts = {key: data.get(key) for key in ("repairs", "handlers")}
    inner = [(key, n, "steps") for key, part in parts.items() if isinstance(part, list) for n in range(len(part))]
    for path in [*((key,) for key in ("steps", *HOOKS)), *inner]:
        node: Any = root
        for part in path:
            named = isinstance(node, yaml.MappingNode)
            node = ({key.value: each for key, each in node.value} if named else dict(enumerate(_inner(node)))).get(part)
            if node is None:
                break
        if isinstance(node, yaml.SequenceNode) and not root.flow_style and _is_here(node, root) and node not in seen:
            seen.append(node)  # an alias leads to it again
            yield path, node


# Steps in their short or long form.


class _Step(Struct, frozen=True, dict=True):
    """A step as it stands in the file."""

    text: str
    node: yaml.MappingNode
    data: Mapping[str, Any]

    @property
    def column(self) -> int:
        return int(self.node.start_mark.column)

    @property
    def start(self) -> int:
        return _start(self.node)

    @property
    def end(self) -> int:
        return _end(self.node)

    def cut(self, node: yaml.Node) -> str:
        return self.text[_start(node) : _end(node)]

    @cached_property
    def written(self) -> Mapping[str, str]:
        """Value as JSON -> how the file writes it, for all values of the step that stand on one line."""
        return {told: cut for told, node in self._values(self.node, self.data) if "\n" not in (cut := self.cut(node))}

    def _values(self, node: yaml.Node, value: Any) -> Iterator[tuple[str, yaml.Node]]:
        if not _is_block(node):
            yield json.dumps(value), node
        if isinstance(node, yaml.MappingNode):
            for (key, each), (name, item) in zip(node.value, value.items(), strict=True):
                yield from chain(self._values(key, name), self._values(each, item))
        elif isinstance(node, yaml.SequenceNode):
            for each, item in zip(node.value, value, strict=True):
                yield from self._values(each, item)

    def write(self, value: Any, *, braces: bool = False) -> str:
        """A value as the file writes it; one that the file does not have, in YAML."""
        found = self.written.get(json.dumps(value))
        if found is None and isinstance(value, dict):
            items = ((self.write(key, braces=True), self.write(each, braces=True)) for key, each in value.items())
            return "{" + ", ".join(f"{key}: {each}" for key, each in items) + "}"
        needs_quotes = (
            braces and isinstance(value, str) and found and found[0] not in "\"'" and _OF_BRACES.search(found)
        )
        return scalar(value) if found is None or needs_quotes else found

    def line(self, key: str, value: Any, *, braces: bool = False) -> str:
        return f"{key}:" if value is None else f"{key}: {self.write(value, braces=braces)}"

    def with_head(self, head: Mapping[str, Any], rest: Iterable[str]) -> str | None:
        """The step with these keys first and others as they are; None if that would lose a comment or a form."""
        kept = set(rest)
        pairs = list(zip(self.data, self.node.value, strict=True))
        gone = [node for key, pair in pairs if key not in kept for node in pair]
        many_lines = any(
            isinstance(each, yaml.ScalarNode) and "\n" in self.cut(each) for node in gone for each in _leaves(node)
        )
        if many_lines or any(_has_comment(self.text, (node,)) for node in gone):
            return None
        in_braces = self.node.flow_style or (len(head) > 1 and len(self.data) == 1)
        return self._in_braces(head, kept) if in_braces else self._in_block(head, kept)

    def _in_braces(self, head: Mapping[str, Any], kept: set[str]) -> str | None:
        others = [
            f"{self.cut(key)}: {self.cut(value)}"
            for name, (key, value) in zip(self.data, self.node.value, strict=True)
            if name in kept
        ]
        if any("\n" in each for each in others) or _has_comment(self.text, (self.node,)):
            return None
        if len(head) == 1 and not others:
            return self.line(*next(iter(head.items())))
        line = "{" + ", ".join([*(self.line(*each, braces=True) for each in head.items()), *others]) + "}"
        if self.column + len(line) <= WIDEST and None not in head.values():
            return line
        return f"\n{' ' * self.column}".join([*(self.line(*each) for each in head.items()), *others])

    def _in_block(self, head: Mapping[str, Any], kept: set[str]) -> str | None:
        names, pairs = list(self.data), self.node.value
        starts = [_start(key) for key, _ in pairs]
        lines, notes = [self.line(*each) for each in head.items()], []
        for number, (name, (_, value)) in enumerate(zip(names, pairs, strict=True)):
            last = number + 1 == len(pairs)
            end = self.end if last else starts[number + 1]
            if name in kept:
                lines.append(_BLANK.sub("", self.text[starts[number] : end]))
            elif not last and (note := self.text[_end(value) : end].strip()):
                notes.append(note)
        after = self.text[self.end :].partition("\n")[0].strip()
        if len(notes) > 1 or "\n" in "".join(notes) or (after and names[-1] not in kept and (kept or notes)):
            return None
        if notes:
            lines[0] += f"  {notes[0]}"
        return f"\n{' ' * self.column}".join(lines)


def _steps(text: str) -> Iterator[_Step]:
    """The steps of a file that can be written anew, in its order."""
    data = read_yaml(text)
    for path, node in _lists(text):
        if node.flow_style:
            continue
        for each, step in zip(node.value, value_at(data, path), strict=True):
            is_plain = isinstance(each, yaml.MappingNode) and text[_start(each)] not in "&!*?"
            if is_plain and step and not is_use(step):
                yield _Step(text, each, step)


def _shortened(text: str) -> Iterator[_Edit]:
    for step in _steps(text):
        if short := short_step(step.data):
            act, *rest = short
            if found := step.with_head({act: short[act]}, rest):
                yield _Edit(step.start, step.end, found)


def _lengthened(text: str) -> Iterator[_Edit]:
    for step in filter(lambda each: is_short(each.data), _steps(text)):
        try:
            found = long_steps(dict(step.data))
        except ShortFormError:
            continue
        act = next(iter(step.data))
        lead = text[text.rindex("\n", 0, step.start) : step.start]
        rest = [key for key in step.data if key != act]
        heads = [{key: value for key, value in each.step.items() if key not in rest} for each in found]
        lines = [step.with_head(head, rest) for head in heads]
        if all(lines) and (len(lines) == 1 or _NEXT_ITEM.fullmatch(lead)):
            yield _Edit(step.start, step.end, lead.join(filter(None, lines)))


def _joined(text: str) -> Iterator[_Edit]:
    """Fields that are typed one after another, in one step if they fit into a line."""
    run: list[_Step] = []
    for step in (*_steps(text), None):
        follows = step and run and _NEXT_ITEM.fullmatch(text[run[-1].end : step.start])
        if run and not follows:
            yield from _as_one(run)
            run = []
        if step and step.data.keys() == {"type"} and isinstance(step.data["type"], dict):
            run.append(step)


def _as_one(run: Sequence[_Step]) -> Iterator[_Edit]:
    values = [step.node.value[0][1] for step in run]
    cuts = [step.cut(value) for step, value in zip(run, values, strict=True)]
    selectors = [selector for step in run for selector in step.data["type"]]
    line = "type: {" + ", ".join(cut.strip("{} ") for cut in cuts) + "}"
    fits = run[0].column + len(line) <= _JOINED and not any(map(_is_block, values)) and "\n" not in line
    if len(run) > 1 and fits and len(set(selectors)) == len(selectors):
        yield _Edit(run[0].start, run[-1].end, line)


def _one_a_line(text: str) -> Iterator[_Edit]:
    """The steps of a list in brackets, each on a line of its own."""
    for path, node in _lists(text):
        cuts = [text[_start(each) : _end(each)] for each in node.value]
        if (
            path == ("steps",)
            and cuts
            and text[_start(node) : _start(node.value[0])].strip() == "["
            and ("\n" not in "".join(cuts) and not _has_comment(text, (node,)))
        ):
            begin = text.rindex(":", 0, _start(node)) + 1
            yield _Edit(begin, _end(node), "".join(f"\n  - {cut}" for cut in cuts))


# White space.


def _indented(text: str) -> Iterator[_Edit]:
    """Blocks indented by two columns, and the items of lists too."""
    root, lines = _compose(text), text.split("\n")
    if not _is_block(root):
        return
    shifts: dict[int, int] = {}
    for node, wanted in _blocks(text, root, 0):
        for number in _lines_of(text, lines, node):
            shifts[number] = wanted - node.start_mark.column
        for item in filter(lambda each: _is_here(each, node), _inner(node)):
            lead = text[text.rfind("\n", 0, _start(item)) + 1 : _start(item)]
            if isinstance(node, yaml.SequenceNode) and (wide := _WIDE_ITEM.search(lead)):
                yield _Edit(_start(item) - len(wide[0]), _start(item), " ")
    begin = 0
    for number, line in enumerate(lines):
        have = _width(line)
        yield _Edit(begin, begin + have, " " * max(0, have + shifts.get(number, 0)))
        begin += len(line) + 1


def _blocks(text: str, node: yaml.CollectionNode, column: int) -> Iterator[tuple[yaml.CollectionNode, int]]:
    """The blocks of a file, the outer first, with the column where each belongs."""
    yield node, column
    for each in _inner(node):
        if _is_block(each) and _is_here(each, node) and text[_start(each)] not in "&!":
            yield from _blocks(text, each, column + 2)


def _lines_of(text: str, lines: Sequence[str], node: yaml.Node) -> Iterator[int]:
    """The lines of a block that begin in it, with the comments above its first item."""
    mark, first = node.start_mark, node.start_mark.line
    if _width(lines[first]) < mark.column:
        first += 1  # it begins behind the dash of a list
    else:
        while first and lines[first - 1].lstrip().startswith("#") and _width(lines[first - 1]) == mark.column:
            first -= 1
    last = text.count("\n", 0, _end(node))
    yield from (each for each in range(first, last + 1) if lines[each].strip() and _width(lines[each]) >= mark.column)


def _width(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _tidied(text: str) -> Iterator[_Edit]:
    """No white space at the ends of lines, one blank line at a time, and a line break at the end of the file."""
    texts = [node for node in _leaves(_compose(text)) if isinstance(node, yaml.ScalarNode)]
    long = [node for node in texts if node.end_mark.line > node.start_mark.line]
    kept = {
        line
        for node in long
        for line in range(node.start_mark.line, node.end_mark.line + (node.style not in _TEXT_BLOCKS))
    }
    lines = text.split("\n")
    last = max(number for number, line in enumerate(lines) if line.strip() or number in kept)
    begin, blank = 0, True
    for number, line in enumerate(lines):
        end, empty = begin + len(line), not line.strip()
        if number not in kept and empty and (blank or number > last):
            yield _Edit(begin, min(end + 1, len(text)), "")
        elif number not in kept:
            yield _Edit(begin + len(line.rstrip()), end, "")
        begin, blank = end + 1, empty and number not in kept
    if not text.endswith("\n") and last not in kept:
        yield _Edit(len(text), len(text), "\n")
