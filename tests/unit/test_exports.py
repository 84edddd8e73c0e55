"""What a package exports is imported when it is first used, and is what its modules define."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("harness", "harness.criteria", "harness.recovery", "harness.resilience")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_that_of_the_module_which_type_checkers_read(package: str) -> None:
    found = import_module(package)
    tree = ast.parse(Path(str(found.__file__)).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    homes = {each.name: node.module for node in imports for each in node.names}
    assert set(found.__all__) <= homes.keys()
    for name in found.__all__:
        assert getattr(found, name) is getattr(import_module(str(homes[name])), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_exported_is_an_error_with_its_name(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing_of_ours'"):
        _ = import_module(package).nothing_of_ours


def test_a_package_imports_no_module_before_a_name_is_used() -> None:
    code = f"import sys; {'; '.join(f'import {each}' for each in PACKAGES)}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert {each for each in shown.split() if each.startswith("harness")} == {*PACKAGES, "harness.exports"}
