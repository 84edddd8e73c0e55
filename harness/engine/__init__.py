"""The engine: runs a plan over ports. Does no I/O of its own."""

from harness.engine.task import run_task

__all__ = ["run_task"]
