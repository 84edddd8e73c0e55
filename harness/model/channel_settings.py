"""`[tool.harness.channels.<name>]`: where a JSON document of the system under test is read and written."""

from __future__ import annotations

from typing import Self

from pydantic import Field, JsonValue, model_validator

from harness.recovery.declaration import Declaration


class ChannelSettings(Declaration):
    """`[tool.harness.channels.<name>]`: a JSON document of the system under test."""

    url: str | None = Field(
        None, description="An address: `GET` reads, `PUT` restores, `PATCH` merges, `POST <url>/reset` resets."
    )
    file: str | None = Field(None, description="A JSON file, relative to the project; every world shares it.")
    sqlite: str | None = Field(
        None, description="A SQLite database, relative to the project; every world shares it. See `table` and `key`."
    )
    table: str | None = Field(
        None, description="Table of `sqlite`. Default: the document contains every table, and can only be read."
    )
    key: str | None = Field(
        None,
        description="Column of `table` that names the rows: the document is an object and can be written. Without "
        "it the document is the list of the rows and can only be read.",
    )
    value: str | None = Field(
        None, description="Column of `table` that holds the value of a key. Default: the whole row."
    )
    python: str | None = Field(
        None, description="`package.module:callable`. It is called with the world id and returns the document."
    )
    tool: str | None = Field(
        None,
        description="A tool of a server of `[tool.harness.tools]`, as `server.tool`. Its answer is the document. "
        "Reading it counts as `read`, whatever the server says.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Arguments of `tool` and of its `restore`. `{world}` in a text is the id of the task's world.",
    )
    restore: str | None = Field(
        None,
        description="With `python`: `package.module:callable`, called with the world id and the document that replaces "
        "the present one. With `tool`: the tool that replaces it, as `server.tool`; it counts as `idempotent`.",
    )
    restore_argument: str = Field(
        "document", min_length=1, description="Argument of a tool in `restore` that takes the new document."
    )
    readonly: bool = Field(
        False,
        description="Whether the channel is never written. Steps and faults that would write it are refused.",
    )
    clock: str | None = Field(None, description="Path in the document to which the `time` of a task is written.")
    timeout: float = Field(5.0, gt=0, le=300, description="Limit for one reading or writing, in seconds.")
    schema_file: str | None = Field(
        None,
        alias="schema",
        description="A JSON Schema, relative to the project. A document that breaks it ends the task with "
        "DATA_CORRUPTION.",
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
        if self.tool is None and self.arguments:
            raise ValueError("`arguments` belongs to a channel with `tool`")
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
