"""Messages as lines, without a process."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest

from harness.tools.lines import BREATH, LineReader


@pytest.mark.parametrize("line", [b"y\n", b"{}\n"])
def test_a_server_that_prints_without_end_leaves_other_tasks_their_turns(line: bytes) -> None:
    async def main() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        reading, writing = os.pipe()
        printer = threading.Thread(target=_print, args=(writing, 20_000 * line))
        printer.start()
        task = asyncio.create_task(other())
        with os.fdopen(reading, "rb") as pipe:
            await LineReader(_nobody, 1_000).read(pipe)
        task.cancel()
        printer.join()
        return turns

    assert asyncio.run(main()) >= 20_000 // BREATH - 20


def _print(pipe: int, text: bytes) -> None:
    with os.fdopen(pipe, "wb") as output:
        output.write(text)


async def _nobody(_message: Any) -> None:
    raise AssertionError("it is no message")
