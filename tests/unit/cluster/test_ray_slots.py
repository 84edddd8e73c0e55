"""What is said when there is no Ray to connect with. The rest needs Ray: tests/acceptance/test_cluster.py."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from harness.cluster import ray_slots
from harness.cluster.place import ClusterPlace
from harness.cluster.ray_slots import ClusterError, check


def test_without_ray_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_slots, "find_spec", lambda _: None)
    with pytest.raises(ClusterError, match=r"--task-cluster local:2 needs .* pip install 'pytest-taskspec\[ray\]'"):
        check(ClusterPlace.parse("local:2"))


def test_a_head_that_does_not_answer_is_named_with_what_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_slots, "find_spec", lambda _: object())
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=rf"nothing answers at 127.0.0.1:{port} .*ray start --head"):
            check(ClusterPlace.parse(f"127.0.0.1:{port}"))


def test_nothing_of_ray_is_imported_with_the_module() -> None:
    code = "import sys, harness.cluster.ray_slots; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
