"""From a TaskSpec to a Plan: checked again, interpolated, scaled, with the rules of this run (DESIGN 3)."""

from harness.compile.making import compile_plan

__all__ = ["compile_plan"]
