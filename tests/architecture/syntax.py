"""The syntax trees of modules."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


def tree(path: Path) -> ast.Module:
    """The tree of a module.

    Without garbage collection: it may print an error of an object that an earlier test left, with a traceback, for
    which Python 3.11 parses too, and two parsers within each other end in a SystemError.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        if enabled:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a module, kept for whoever looks at them next: `nodes.cache_clear()` frees them."""
    return tuple(ast.walk(tree(path)))
