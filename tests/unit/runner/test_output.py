"""What is said before the turn is said in it, in order, once."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from harness.runner.parallel import Output, is_deferred, keep, kept_in


def test_what_is_kept_is_said_in_order_and_what_comes_later_at_once() -> None:
    said: list[int] = []
    output = Output()
    with kept_in(output):
        assert [keep(partial(said.append, number)) for number in range(3)] == [True] * 3
        assert said == []
        output.print_now()
        assert said == [0, 1, 2]
        assert not keep(partial(said.append, 3))
    assert said == [0, 1, 2]


def test_where_no_task_runs_ahead_nothing_is_kept() -> None:
    assert not keep(lambda: None)


def test_each_of_several_tasks_has_its_own_on_whatever_thread() -> None:
    said: dict[str, list[str]] = {"a": [], "b": []}

    async def task(name: str, output: Output) -> None:
        with kept_in(output):
            for _ in range(3):
                await asyncio.to_thread(keep, partial(said[name].append, name))
                await asyncio.sleep(0)

    async def main(*outputs: Output) -> None:
        await asyncio.gather(*(task(name, output) for name, output in zip("ab", outputs, strict=True)))

    outputs = Output(), Output()
    asyncio.run(main(*outputs))
    outputs[1].print_now()
    assert said == {"a": [], "b": ["b"] * 3}


def test_what_is_said_as_the_turn_comes_is_neither_lost_nor_told_twice() -> None:
    """A thread speaks all the time, and once more while what it said is said."""
    output, said = Output(), []

    def say(number: int) -> None:
        said.append(number)

    def speak() -> None:
        with kept_in(output):
            for number in range(2000):
                if not keep(partial(say, number)):
                    say(number)

    thread = threading.Thread(target=speak)
    thread.start()
    output.print_now()
    thread.join()
    assert said == list(range(2000))


def test_what_cannot_be_said_takes_nothing_along() -> None:
    said: list[int] = []
    output, first = Output(), UnicodeError("first")

    def fail(error: Exception) -> None:
        raise error

    with kept_in(output):
        assert is_deferred()
        for say in (
            partial(said.append, 1),
            partial(fail, first),
            partial(said.append, 2),
            partial(fail, ValueError()),
        ):
            keep(say)
        assert output.print_now() is first
        assert not is_deferred()
    assert said == [1, 2]
    assert Output().print_now() is None
