"""`parametrize: {file: users.csv}`: the cases of a task, from a CSV or JSON file beside it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.spec.loaded import Gathered
from harness.spec.names import file_problem
from harness.spec.problems import (
    UNKNOWN,
    JsonPath,
    Problem,
    SpecError,
    describe_value,
    did_you_mean,
    dotted_path,
    join_or,
)
from harness.spec.readers import Span, json_spans, line_and_column
from harness.spec.source import Origin, Source, file_label, read_source, read_text
from harness.spec.task import DataFile
from harness.values import replace

_KEY = "parametrize"
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_CELL = re.compile(r'"(?:[^"]|"")*"[^,\n]*|[^,\n]*')
_IN_QUOTES = re.compile(r'""|.', re.DOTALL)
_DATA = "a .csv file with a header row, or a .json file with a list of objects"
_WORDS = {"unexpected end of data": "a cell that begins with a quote has no closing quote"}
"""What Python's reader of CSV says -> plain words."""

_Rows = list[dict[str, Any]]


def with_rows(gathered: Gathered, folder: Path) -> Gathered:
    """The task's document with the rows of its data file as its listed cases. Raises SpecError.

    Problems of the rows have their places in the data file; `gathered` keeps the task's own file as its main one.
    """
    here = Origin(gathered.origin.file, gathered.origin.main)
    declared = gathered.data[_KEY]
    if problems := [*_declaration_problems(declared, folder, here)]:
        raise SpecError(problems)
    path, column = folder / declared["file"], declared.get("id")
    table = _read_csv(path) if path.suffix.lower() == ".csv" else _read_json(path)
    rows = _with_ids(table, column, here)
    named = DataSource(table.file, table.text, rows, table.is_json, column or "id")
    parts = {**gathered.origin.parts, _KEY: (named, ())}
    origin = replace(gathered.origin, parts=parts)
    return replace(gathered, data={**gathered.data, _KEY: rows}, origin=origin)


def _declaration_problems(declared: Mapping[str, Any], folder: Path, here: Origin) -> Iterator[Problem]:
    known = tuple(DataFile.model_fields)
    for key in declared:
        if key not in known:
            hint = did_you_mean(key, known) or "a text as `file` names a data file; a parameter `file` has a list"
            yield here.problem((_KEY, key), f"{UNKNOWN} `{key}`", expected=join_or(known), hint=hint, key=True)
    column, name = declared.get("id"), declared["file"]
    if "id" in declared and (not isinstance(column, str) or not column):
        expected = "the name of a column"
        yield here.problem((_KEY, "id"), "wrong type", expected=expected, value=column)
    problem = file_problem(name, folder)
    if not problem and not name.lower().endswith((".csv", ".json")):
        problem = "not a data file"
    if problem:
        hint = did_you_mean(name, [each.name for each in folder.glob("*") if each.suffix.lower() in (".csv", ".json")])
        expected = f"{_DATA}, in the task's folder"
        yield here.problem((_KEY, "file"), problem, expected=expected, value=name, hint=hint)


@dataclass(frozen=True)
class DataSource(Source):
    """A data file that was read; `data` has its rows. The column `id_column` has the ids of the cases."""

    id_column: str = "id"

    @cached_property
    def spans(self) -> Mapping[JsonPath, Span]:
        return json_spans(self.text) if self.is_json else dict(_csv_spans(self.text))

    def place(self, path: JsonPath, key: bool = False, within: tuple[str, int] | None = None) -> tuple[int, int]:
        if path[1:] == ("id",):
            path = (path[0], self.id_column)
        return super().place(path, key, within)

    def offset_within(self, span: Span, value: str, offset: int) -> int:
        if self.is_json:
            return super().offset_within(span, value, offset)
        if self.text[span.start : span.start + 1] != '"':
            return span.start + offset
        starts = [match.start() for match in _IN_QUOTES.finditer(self.text[span.start + 1 : span.end - 1])]
        return span.start + 1 + (starts[offset] if offset < len(starts) else 0)


def _with_ids(table: DataSource, column: str | None, here: Origin) -> _Rows:
    """The rows with the ids of their cases. Raises SpecError for a column that is not there."""
    rows: _Rows = table.data
    if column in (None, "id"):
        return rows
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if column not in columns:
        message, hint = f"{table.file} has no column `{column}`", did_you_mean(str(column), columns)
        raise SpecError([here.problem((_KEY, "id"), message, expected=join_or(columns), hint=hint)])
    if "id" in columns:
        message = f"{table.file} has a column `id`, which names the cases already"
        raise SpecError([here.problem((_KEY, "id"), message, hint="drop this key, or rename the column")])
    return [{**({"id": _as_id(row[column])} if column in row else {}), **row} for row in rows]


def _as_id(value: Any) -> Any:
    """A whole number of a column counts as its text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


# JSON: a list of objects with simple values.


def _read_json(path: Path) -> DataSource:
    source = read_source(path)
    table = DataSource(source.file, source.text, source.data, source.is_json)
    if problems := list(_json_problems(table)):
        raise SpecError(problems)
    return table


def _json_problems(table: DataSource) -> Iterator[Problem]:
    origin = Origin(table.file, None, {_KEY: (table, ())})
    if not isinstance(table.data, list):
        expected = "a list of objects, such as [{...}, {...}]"
        yield origin.problem((_KEY,), "not a list of cases", expected=expected, value=table.data)
        return
    if not table.data:
        yield origin.problem((_KEY,), "the file has no rows", expected="at least one object")
    for number, row in enumerate(table.data):
        if not isinstance(row, dict):
            expected = "an object with the values of the case"
            yield origin.problem((_KEY, number), "not a case", expected=expected, value=row)
            continue
        for name, value in row.items():
            if isinstance(value, list | dict):
                expected, hint = "a text, a number, true, false or null", "list nested cases in the task's own file"
                found = describe_value(value)
                yield origin.problem((_KEY, number, name), "a nested value", expected=expected, found=found, hint=hint)


# CSV: a header row, then a row for each case; every value is a text.


def _read_csv(path: Path) -> DataSource:
    file = file_label(path)
    text = read_text(path, file)
    records, problems = _records(text, file)
    if not records and not problems:
        problems = [Problem(file, 1, 1, "", "the file is empty", "a header row, and a row for each case")]
    if not problems:
        problems = [*_header_problems(text, file, records[0])] or [*_row_problems(text, file, records)]
    if problems:
        raise SpecError(problems)
    (_, header), *rest = records
    return DataSource(file, text, [dict(zip(header, cells, strict=True)) for _, cells in rest], is_json=False)


_Record = tuple[int, list[str]]
"""The line at which a record begins, from 1, and its cells."""


def _records(text: str, file: str) -> tuple[list[_Record], list[Problem]]:
    """All records but the empty ones, and the problem of the first that cannot be read."""
    reader = csv.reader(io.StringIO(text), strict=True)
    found: list[_Record] = []
    line = 1
    try:
        for cells in reader:
            if cells and not (len(cells) == 1 and cells[0].isspace()):
                found.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        message = _WORDS.get(str(error), f"the row is not CSV: {error}")
        return found, [Problem(file, line, 1, "", message, hint="two quotes within a quoted cell stand for one")]
    return found, []


def _header_problems(text: str, file: str, header: _Record) -> Iterator[Problem]:
    line, names = header
    starts = _starts(text, line, len(names))
    for number, name in enumerate(names):
        place = line_and_column(text, starts[number])
        if not _NAME.fullmatch(name):
            hint = "the first row names the columns"
            if len(names) == 1 and re.search(r"[;\t]", name):
                hint = "separate the cells with commas"
            expected = "a letter, then letters, digits, `_` and `-`"
            yield Problem(file, *place, _KEY, "not a name for a column", expected, describe_value(name), hint)
        elif name in names[:number]:
            yield Problem(file, *place, _KEY, f"there are two columns `{name}`")


def _row_problems(text: str, file: str, records: Sequence[_Record]) -> Iterator[Problem]:
    (_, header), *rows = records
    if not rows:
        yield Problem(file, *line_and_column(text, len(text)), _KEY, "the file has no rows", "a row for each case")
    for number, (line, cells) in enumerate(rows):
        if len(cells) == len(header):
            continue
        surplus = len(cells) > len(header)
        place = line_and_column(text, _starts(text, line, len(cells))[len(header) if surplus else -1])
        message = f"the row has too {'many' if surplus else 'few'} cells"
        path, hint = dotted_path((_KEY, number)), "put a cell with a comma in quotes" if surplus else ""
        yield Problem(file, *place, path, message, str(len(header)), str(len(cells)), hint)


def _starts(text: str, line: int, count: int) -> list[int]:
    """The offsets of the cells of the record that begins at a line."""
    return [span.start for span in _cell_spans(text, _offset_of(text, line), count)]


def _offset_of(text: str, line: int) -> int:
    return sum(len(each) for each in text.split("\n")[: line - 1]) + line - 1


def _cell_spans(text: str, start: int, count: int) -> Iterator[Span]:
    for _ in range(count):
        cell = _CELL.match(text, start)
        end = cell.end() if cell else start
        yield Span(start, end)
        start = end + 1


def _csv_spans(text: str) -> Iterator[tuple[JsonPath, Span]]:
    """The places of all rows and cells. The key of a cell is the name of its column."""
    records, _ = _records(text, "")
    (line, header), *rows = records
    names = _starts(text, line, len(header))
    yield (), Span(0, len(text))
    for number, (line, cells) in enumerate(rows):
        spans = list(_cell_spans(text, _offset_of(text, line), len(cells)))
        yield (number,), Span(spans[0].start, spans[-1].end)
        for name, key, span in zip(header, names, spans, strict=True):
            yield (number, name), replace(span, key=key)
