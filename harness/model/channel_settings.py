"""`[tool.harness.channels.<name>]`: where a JSON document of the system under test is read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, JsonValue, model_validator

from harness.model.service_settings import ServiceSettings, targets_in
from harness.recovery.declaration import Declaration
from harness.spec.problems import did_you_mean
from harness.values import texts_of

_PLACEHOLDERS = ("folder", "port", "slot")
"""The placeholders of `file`, `sqlite` and the `arguments` of `python`, as the slot of the task sees them."""
_GIVEN = ("world", "document")
"""The arguments that a callable gets anyway."""


class ChannelSettings(Declaration):
    """`[tool.harness.channels.<name>]`: a JSON document of the system under test."""

    url: str | None = Field(
        None, description="Address: `GET` reads, `PUT` restores, `PATCH` merges, `POST <url>/reset` resets."
    )
    file: str | None = Field(
        None,
        description="JSON file, which every world shares. `{folder}` is the folder of the service, `{folder:NAME}` "
        "that of one of several; it is required where a service has `instances`.",
    )
    sqlite: str | None = Field(
        None,
        description="SQLite database, which every world shares, with `{folder}` as in `file`.",
    )
    table: str | None = Field(
        None, description="Table of `sqlite`. Default: every table, and the document can only be read."
    )
    key: str | None = Field(
        None,
        description="Column that names the rows: the document is an object and can be written. Default: it is a list "
        "of rows that can only be read.",
    )
    value: str | None = Field(None, description="Column that holds the value of a key. Default: the whole row.")
    as_json: bool = Field(
        False,
        alias="json",
        description="Read every text of `sqlite` that is JSON as its value, also a number, `true` and `null`, as of a "
        "site that writes its values as JSON. Default: only objects, lists and quoted texts.",
    )
    python: str | None = Field(
        None, description="`package.module:callable`, which gets the world id and returns the document."
    )
    tool: str | None = Field(
        None,
        description="Tool of a server, as `server.tool`, whose answer is the document. It counts as `read`.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Arguments of `tool` and its `restore` (`{world}`: the id of the world), or of `python` "
        "(`{folder}`, `{folder:NAME}`, `{port:HOST}`, `{slot}`; one is required where a service has `instances`).",
    )
    restore: str | None = Field(
        None,
        description="What replaces the document: with `python` a `package.module:callable`, which gets the world id "
        "and the new document; with `tool` a tool, which counts as `idempotent`.",
    )
    restore_argument: str = Field(
        "document", min_length=1, description="Argument of that tool that takes the new document."
    )
    readonly: bool = Field(False, description="Refuse steps and faults that would write it.")
    clock: str | None = Field(None, description="Path in the document to which the `time` of a task is written.")
    timeout: float = Field(5.0, gt=0, le=300, description="Seconds for one reading or writing.")
    schema_file: str | None = Field(
        None,
        alias="schema",
        description="JSON Schema. A document that breaks it ends the task with DATA_CORRUPTION.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [key for key in ("url", "file", "sqlite", "python", "tool") if getattr(self, key) is not None]
        if len(kinds) > 1:
            raise ValueError(f"`{kinds[0]}` and `{kinds[1]}` both say where it is: leave out one of them")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for inner, outer in (("table", "sqlite"), ("key", "table"), ("value", "key")):
            if getattr(self, inner) is not None and getattr(self, outer) is None:
                raise ValueError(f"`{inner}` needs `{outer}` too")
        if self.as_json and self.sqlite is None:
            raise ValueError(".json: it belongs to a channel with `sqlite`: the documents of others are JSON already")
        if self.restore is not None and self.python is None and self.tool is None:
            raise ValueError(
                "`restore` belongs to a channel with `python` or `tool`; `url` and `file` are restored without it"
            )
        self._check_tools()
        if self.readonly and (self.restore is not None or self.clock is not None):
            other = "clock" if self.restore is None else "restore"
            raise ValueError(f"`readonly = true` contradicts `{other}`, which writes: leave out one of them")
        return self

    @property
    def is_fixed(self) -> bool:
        """Whether its settings say that it cannot be written."""
        blind = (self.sqlite and not self.key) or (self.tool and not self.restore)
        return self.readonly or bool(blind)

    def _check_tools(self) -> None:
        """Raise ValueError for a key of tools that has no effect, or a tool that is not written `server.tool`."""
        if self.tool is None and self.python is None and self.arguments:
            raise ValueError("`arguments` belongs to a channel with `tool` or `python`")
        if self.python is not None and (given := [name for name in _GIVEN if name in self.arguments]):
            raise ValueError(f"`arguments` must not contain `{given[0]}`, which the callable gets anyway")
        if (self.tool is None or self.restore is None) and "restore_argument" in self.model_fields_set:
            raise ValueError("`restore_argument` belongs to a channel with `tool` and `restore`")
        for key, name in (("tool", self.tool), ("restore", self.restore if self.tool else None)):
            if name is not None and not all(name.partition(".")):
                raise ValueError(f"`{key}` must be written `server.tool`, not {name!r}")

    @property
    def tools(self) -> tuple[tuple[str, str, str], ...]:
        """The tools that it calls: the key, the server and the tool of each."""
        named = (("tool", self.tool), ("restore", self.restore)) if self.tool is not None else ()
        return tuple((key, *name.partition(".")[::2]) for key, name in named if name is not None)

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """The key and the text of each value that may have placeholders of the slot."""
        for key, path in (("file", self.file), ("sqlite", self.sqlite)):
            if path is not None:
                yield key, path
        if self.python is not None:
            yield from (("arguments", text) for text in texts_of(self.arguments))


def place_problem(
    channels: Mapping[str, ChannelSettings], services: Mapping[str, ServiceSettings], *, worlds: bool
) -> str:
    """A channel and why it cannot be found, or why tasks in different slots would share it; empty if all is well.

    `worlds`: whether the site keeps a state for each world, so that a callable can tell tasks apart by their worlds.
    """
    for name, channel in channels.items():
        for key, text in channel.texts:
            if problem := _unknown_place(text, services):
                return f".channels.{name}.{key}: {problem}"
        told_apart = channel.python is not None and worlds
        if not told_apart and (problem := _shared_place(channel, services)):
            return f".channels.{name}.{problem}"
    return ""


def _unknown_place(text: str, services: Mapping[str, ServiceSettings]) -> str:
    started = {name.lower(): name for name, each in services.items() if each.command is not None}
    hosts = [host for each in services.values() for host in each.declared]
    for name, target in targets_in(text):
        shown = f"`{{{name}{f':{target}' if target is not None else ''}}}`"
        if name not in _PLACEHOLDERS or (name == "slot" and target is not None):
            meant = did_you_mean(name, _PLACEHOLDERS) or "there are: {folder}, {folder:NAME}, {port:HOST}, {slot}"
            return f"unknown placeholder {shown} ({meant}); `{{{shown[1:-1]}}}` is that text itself"
        if name == "port" and (target or "").lower() not in hosts:
            meant = did_you_mean(target or "", hosts) or f"write {{port:HOST}}; there are: {', '.join(hosts) or 'none'}"
            return f"{shown} names no host of [tool.harness.services] ({meant})"
        if name != "folder" or (target is None and len(started) == 1) or (target or "").lower() in started:
            continue
        known = ", ".join(f"{{folder:{each}}}" for each in started.values()) or "none"
        meant = did_you_mean(target or "", started.values()) or f"there are: {known}"
        return f"{shown} does not name a service of [tool.harness.services] that a run starts ({meant})"
    return ""


def _shared_place(channel: ChannelSettings, services: Mapping[str, ServiceSettings]) -> str:
    """The key, and why all slots would share the channel; empty if each slot has its own, or there is only one slot."""
    several = {name: each for name, each in services.items() if each.instances > 1}
    key = next((kind for kind in ("file", "sqlite", "python") if getattr(channel, kind) is not None), None)
    if not several or key is None:
        return ""
    own = {("slot", ""), *(("folder", name.lower()) for name in several)}
    own |= {("port", host) for each in several.values() for host in each.declared}
    own |= {("folder", "")} if sum(each.command is not None for each in services.values()) == 1 else set()
    if any((name, (target or "").lower()) in own for _, text in channel.texts for name, target in targets_in(text)):
        return ""
    service, settings = next(iter(several.items()))
    folder = "{folder}" if len(services) == 1 else f"{{folder:{service}}}"
    where = "the `arguments` do not contain" if key == "python" else "its path does not contain"
    return (
        f"{key}: all {settings.instances} `instances` of `{service}` would share it, so a task could be judged by what "
        f"another one did: {where} `{folder}`, the folder of the instance"
    )
