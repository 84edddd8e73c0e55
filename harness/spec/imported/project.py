"""The files of a suite: modules, what they import of each other, and the `conftest.py` files above a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.spec.imported.following import ReturnedError
from harness.spec.imported.interpreter import Interpreter
from harness.spec.imported.library import imported_name
from harness.spec.imported.script import TestScript
from harness.spec.imported.values import Frame, LibraryName, Module, Opaque, SourcePage, Unknown
from harness.spec.imported.world import PlaywrightWorld
from harness.spec.recorded.locators import UnwritableError

_MOST_ABOVE = 6
"""Folders above a file in which its imports are looked for."""
_TYPES = ("Page", "Locator", "Browser", "BrowserContext", "Playwright", "APIRequestContext", "Response")


class NoParserError(RuntimeError):
    """The parser for JavaScript is not installed; the message says how to install it."""


class SuiteProject:
    """The modules of a suite; each is followed once."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        """Values of names that the user said."""
        self._modules: dict[Path, Module | None] = {}
        self.made_up: dict[str, int] = {}
        """Name of a made-up value -> how many there are outside of tests."""
        self.options: dict[str, Any] = {}
        """Defaults of the suite's own options of pytest, by name."""

    def read(self, file: Path) -> ast.Module:
        """The source of a file. Raises OSError, SyntaxError, UnicodeDecodeError, NoParserError."""
        if file.suffix == ".py":
            return ast.parse(file.read_text("utf-8-sig"), str(file))
        try:
            from harness.spec.imported.javascript import python_of
        except ImportError:
            raise NoParserError(
                f"{file}: TypeScript and JavaScript need a parser: pip install 'pytest-taskspec[import]'"
            ) from None

        return python_of(file.read_text("utf-8-sig"), file)

    def module(self, file: Path) -> Module:
        """The module of a file. Raises OSError, SyntaxError, UnicodeDecodeError."""
        known = self._modules.get(file)
        if known is not None:
            return known
        made = self._modules[file] = Module(file, self.read(file), {"__file__": str(file)})
        self._follow(made)
        self._find_options(made.tree)
        return made

    def interpreter(self, script: TestScript) -> Interpreter:
        """What follows a test of the suite."""
        world = PlaywrightWorld(script, self.names_of, self.given)
        world.options = self.options
        world.interpreter = Interpreter(world, script)
        return world.interpreter

    def _follow(self, module: Module) -> None:
        interpreter = self.interpreter(TestScript(made_up=self.made_up))
        frame = Frame(module, module.names)
        for statement in module.tree.body:
            try:
                for _ in interpreter.run([statement], frame):
                    pass
            except (UnwritableError, ReturnedError, RecursionError):
                continue  # what it would have set stays unknown
        for name in self.given.keys() & module.names.keys():
            module.names[name] = self.given[name]

    def _find_options(self, tree: ast.Module) -> None:
        for each in ast.walk(tree):
            if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "addoption" and each.args:
                default = next((keyword.value for keyword in each.keywords if keyword.arg == "default"), None)
                if isinstance(each.args[0], ast.Constant) and isinstance(default, ast.Constant):
                    self.options[str(each.args[0].value).lstrip("-").replace("-", "_")] = default.value

    # Imports.

    def names_of(self, statement: ast.Import | ast.ImportFrom, module: Module) -> Iterable[tuple[str, Any]]:
        """The names that an import makes."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                found = self._imported(module, name, 0)
                yield alias.asname or name, found if found is not None else imported_name(name)
            return
        source = self._imported(module, statement.module or "", statement.level)
        for alias in statement.names:
            yield from self._from(statement, alias, source, module)

    def _from(
        self, statement: ast.ImportFrom, alias: ast.alias, source: Module | None, module: Module
    ) -> Iterator[tuple[str, Any]]:
        name = alias.asname or alias.name
        inner = f"{statement.module}.{alias.name}" if statement.module else alias.name
        if source is not None and alias.name == "*":
            yield from ((each, value) for each, value in source.names.items() if not each.startswith("_"))
        elif source is not None and alias.name in source.names:
            yield name, source.names[alias.name]
        elif module.file.suffix == ".py" and (found := self._imported(module, inner, statement.level)) is not None:
            yield name, found
        elif statement.module == "@faker-js/faker":
            yield name, LibraryName("faker.it")
        elif alias.name in ("expect", "test") and module.file.suffix != ".py":
            yield name, LibraryName(f"playwright.sync_api.{alias.name}")
        elif source is not None or statement.level or (statement.module or " ")[:1] in (".", "@"):
            yield name, Unknown(f"`{alias.name}` is not found in `{'.' * statement.level}{statement.module or ''}`")
        elif alias.name in _TYPES and statement.module in ("playwright.sync_api", "playwright.async_api"):
            yield name, Opaque("type", data=alias.name)
        else:
            yield name, imported_name(inner)

    def _imported(self, module: Module, name: str, level: int) -> Module | None:
        """The module of the project with a dotted name, as seen from another one."""
        if module.file.suffix != ".py":
            return self._of_path(module.file.parent, name)
        parts = [part for part in name.split(".") if part]
        if level:
            places = [module.file.parent.joinpath(*[".."] * (level - 1)).resolve()]
        else:
            above = [module.file.parent, *list(module.file.parents)[1:_MOST_ABOVE]]
            places = [place for each in above for place in (each, each / "src")]
        for place in places:
            target = place.joinpath(*parts)
            for file in (target.with_suffix(".py") if parts else target, target / "__init__.py"):
                if file.is_file() and file.suffix == ".py":
                    return self._module_or_none(file)
        return None

    def _of_path(self, folder: Path, name: str) -> Module | None:
        """The module of a path as JavaScript imports it: `./pages/login`, `@pages/login`."""
        if not name.startswith("."):
            return self._of_alias(folder, name)
        target = (folder / name).resolve()
        bare = target.with_suffix("") if target.suffix in (".js", ".ts", ".mjs") else target
        for each in (*(bare.parent / f"{bare.name}{end}" for end in _ENDS), *(target / f"index{end}" for end in _ENDS)):
            if each.is_file():
                return self._module_or_none(each)
        return None

    def _of_alias(self, folder: Path, name: str) -> Module | None:
        """A path with the short name of a folder, as `tsconfig.json` makes one."""
        head, _, rest = name.lstrip("@~").partition("/")
        if not rest or not name.startswith(("@", "~", "src/", "pages/", "tests/")):
            return None
        for place in list(folder.parents)[: _MOST_ABOVE - 1]:
            for inner in (place / head, place / "src" / head, place / "tests" / head, place, place / "src"):
                if inner.is_dir() and (found := self._of_path(inner, f"./{rest}")) is not None:
                    return found
        return None

    def _module_or_none(self, file: Path) -> Module | None:
        try:
            return self.module(file.resolve())
        except (OSError, SyntaxError, UnicodeDecodeError):
            return None

    def keys_of(self, file: Path) -> dict[str, Any]:
        """Keys of a task by the configuration of Playwright Test that lies nearest above a file."""
        for folder in list(file.resolve().parents)[:_MOST_ABOVE] if file.suffix != ".py" else ():
            for config in sorted(folder.glob("playwright.config.*s")):
                found = re.search(r"testIdAttribute:\s*['\"]([\w:.-]+)", config.read_text("utf-8", "replace"))
                return {"browser": {"test_id_attribute": found[1]}} if found else {}
        return {}

    # Conftests.

    def above(self, file: Path) -> Iterator[Module]:
        """The `conftest.py` files that count for a test, the nearest first, each followed by its plugins.

        For JavaScript: the files that it imports, which may have its fixtures.
        """
        if file.suffix != ".py":
            yield from self._imports_of(self.module(file.resolve()), set())
            return
        for folder in list(file.resolve().parents)[:_MOST_ABOVE]:
            conftest = folder / "conftest.py"
            if conftest.is_file() and (found := self._module_or_none(conftest)) is not None:
                yield found
                yield from self._plugins(found)

    def _imports_of(self, module: Module, seen: set[Path]) -> Iterator[Module]:
        for statement in module.tree.body:
            name = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
            found = self._imported(module, name, 0) if name else None
            if found is not None and found.file not in seen:
                seen.add(found.file)
                yield found
                yield from self._imports_of(found, seen)

    def _plugins(self, module: Module) -> Iterator[Module]:
        named = module.names.get("pytest_plugins", ())
        for name in [named] if isinstance(named, str) else named if isinstance(named, list | tuple) else ():
            if isinstance(name, str) and (found := self._imported(module, name, 0)) is not None:
                yield found


_ENDS = (".ts", ".js", ".tsx", ".mts", ".mjs", ".cjs", ".jsx")


def place_of(node: ast.expr) -> Any:
    """The value of an expression about `page`, such as a locator; None if it has none."""
    interpreter = SuiteProject({}).interpreter(TestScript())
    module = Module(Path("locator.py"), ast.Module([], []))
    names = {"page": SourcePage(0), "re": LibraryName("re")}
    try:
        return interpreter.value(node, Frame(module, names))
    except (UnwritableError, ValueError, TypeError, AttributeError, LookupError):
        return None
