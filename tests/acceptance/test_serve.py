"""`harness serve` and `pytest --task-live` as a user meets them."""

from __future__ import annotations

import json
import random
import re
import resource
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import httpx2
import pytest

from harness.reporting.telemetry.log import events_of
from harness.serve.address import address_of
from tests.acceptance.conftest import Project, becomes
from tests.acceptance.warm import warm
from tests.browser.test_live_page import RUN, Served


def harness(project: Path, *args: str) -> tuple[int, str]:
    ended = warm().run("tests.acceptance.command", *args, cwd=project, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("more", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)], ids=["one", "xdist"])
def test_a_run_can_be_watched_from_its_first_line_to_its_evidence(project: Project, more: tuple[str, ...]) -> None:
    project.task("GOOD")
    project.task("BAD", success_criteria=["exists('#nothing')"])
    result = project.run("--task-live", *more, "--task-shard", "1/1")
    told = re.search(r"live view: (\S+)", result.stdout.str())
    assert told is not None
    address = told[1]
    try:
        with httpx2.Client(follow_redirects=True) as http:
            assert "Live run" in http.get(address).text
            base = address.partition("?")[0]
            (run, *_) = http.get(f"{base}api/runs").json()
            assert run == {"run": run["run"], "running": False, "ending": "finished", "shard": "1/1"}
            text = _first_message(http, f"{base}api/runs/{run['run']}/events")
            records = [json.loads(line.removeprefix("data: ")) for line in text if line.startswith("data: ")]
            types = [each["type"] for each in records]
            assert types.count("run-begun") == 1
            assert {each["tasks"] for each in records if each["type"] == "run-begun"} == {2}
            assert sorted(each["key"] for each in records if each["type"] == "task-begun") == ["BAD", "GOOD"]
            assert "GOOD" in http.get(f"{base}api/usual").json()
            assert http.get(f"{base}api/usual?besides={run['run']}").json() == {}  # a run is not its own usual time
            evidence = f"{base}evidence/{run['run']}"
            assert "error_report.json" in http.get(f"{evidence}/BAD").text
            assert "trace.zip" in http.get(evidence.replace("evidence", "api/evidence") + "/BAD").json()
            report = http.get(f"{evidence}/BAD/error_report.json")
            assert report.json()["task_id"] == "BAD"
            assert "sandbox" in report.headers["content-security-policy"]
            for outside in (
                "BAD/..%2F..%2Fpyproject.toml",
                "..%2F.harness",
                ".previous",
                "..",
                "BAD/../../pyproject.toml",
            ):
                assert http.get(f"{evidence}/{outside}").status_code == 404
            assert http.get(f"{base}evidence/OTHER-RUN/BAD").status_code == 404
            again = project.run("--task-live", "-k", "BAD")
            assert base in again.stdout.str()  # the same server
            assert http.get(f"{evidence}/BAD/error_report.json").json() == report.json()  # of that run, not of the last
    finally:
        harness(project.path, "serve", "stop")


def _first_message(http: httpx2.Client, url: str) -> list[str]:
    found: list[str] = []
    with http.stream("GET", url) as answer:
        for line in answer.iter_lines():
            found.append(line)
            if line == "" and any(each.startswith("data: ") for each in found):
                return found
    raise AssertionError(found)


def test_status_token_and_stop(project: Project) -> None:
    code, told = harness(project.path, "serve", "status")
    assert (code, "no server of this project runs" in told) == (3, True)
    served = Served.__new__(Served)
    served.root, served.process = project.path, None
    address = served.start()
    try:
        _, told = harness(project.path, "serve", "status", "--json")
        found = json.loads(told)
        assert address.startswith(found["url"])
        health = json.loads(urllib.request.urlopen(f"{found['url']}health", timeout=5).read())
        assert (health["status"], health["service"], health["project"]) == (
            "ready",
            "taskspec-serve",
            str(project.path),
        )
        _, token = harness(project.path, "serve", "token", "--for", "1h")
        answer = httpx2.get(f"{found['url']}api/runs", headers={"authorization": f"Bearer {token.strip()}"})
        assert answer.status_code == 200
        code, told = harness(project.path, "serve", "--port", "1")
        assert (code, "runs already" in told) == (1, True)
        code, told = harness(project.path, "serve", "token", "--scope", "everything")
        assert (code, "there are: view, agent, control" in told) == (1, True)
        assert harness(project.path, "serve", "stop")[0] == 0
        assert served.process is not None
        assert served.process.wait(10) == 0
        assert address_of(project.path) is None
    finally:
        served.end()


@pytest.mark.parametrize("cuts", [20, pytest.param(100, marks=pytest.mark.thorough)])
def test_each_line_comes_once_over_random_cuts(tmp_path: Path, cuts: int) -> None:
    served = Served(tmp_path)
    for number in range(400):
        served.task(number)
    written = events_of(tmp_path, RUN).read_text("utf-8").splitlines()
    address, chance = served.start(), random.Random(7)
    try:
        with httpx2.Client(follow_redirects=True, timeout=10) as http:
            http.get(address)
            url, last, got = f"{address.partition('?')[0]}api/runs/{RUN}/events", "0", list[str]()
            while len(got) < len(written):
                most, cuts = (chance.randrange(1, 40_000), cuts - 1) if cuts else (10_000_000, 0)
                last = _read_some(http, url, last, most, got, len(written))
            assert got == written
    finally:
        served.end()


def _read_some(http: httpx2.Client, url: str, last: str, most: int, got: list[str], until: int) -> str:
    """Read at most so many bytes and cut the connection; whole messages count, as in a browser."""
    rest = b""
    with http.stream("GET", url, headers={"last-event-id": last}) as answer:
        for chunk in answer.iter_raw():
            *messages, rest = (rest + chunk[: max(0, most)]).split(b"\n\n")
            most -= len(chunk)
            for message in messages:
                lines = message.decode().split("\n")
                got += [line[6:] for line in lines if line.startswith("data: ")]
                last = next((line[4:] for line in lines if line.startswith("id: ")), last)
            if most <= 0 or len(got) >= until:
                break
    return last


def test_it_stays_in_the_background_with_persist_and_one_start_wins(project: Project) -> None:
    command = [sys.executable, "-c", "from harness.cli import main; main()", "serve", "--persist"]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, cwd=project.path, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    told = [each.communicate(timeout=60) for each in started]
    assert becomes(lambda: address_of(project.path) is not None), told
    found = address_of(project.path)
    try:
        assert found is not None
        for process, (said, complained) in zip(started, told, strict=True):
            late = "it may yet" in complained or "is being started by another process" in complained
            assert late or (process.returncode, found.url in said, str(found.pid) in said) == (0, True, True), told
    finally:
        harness(project.path, "serve", "stop")


def _full_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--persist"], "the server could not be started: .harness/logs/serve.log cannot be written: File too large"),
        ([], "the key of the server's tokens cannot be used: .harness/serve.key: File too large"),
    ],
    ids=["persist", "here"],
)
@pytest.mark.thorough
def test_a_server_that_cannot_write_says_what_is_wrong(project: Project, options: list[str], wrong: str) -> None:
    command = [sys.executable, "-c", "from harness.cli import main; main()", "serve"]
    ended = subprocess.run(
        [*command, *options],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=_full_disk,
    )
    assert (ended.returncode, wrong in ended.stderr) == (1, True), ended.stderr
    assert address_of(project.path) is None
    assert not [each.name for each in (project.path / ".harness").iterdir() if each.name.startswith(".")]


@pytest.mark.thorough
def test_what_a_server_said_earlier_is_not_why_it_ended(project: Project) -> None:
    log = project.path / ".harness/logs/serve.log"
    log.parent.mkdir(parents=True)
    log.write_text("error: an old reason\n", "utf-8")
    (project.path / ".harness/serve.key").mkdir()
    code, said = harness(project.path, "serve", "--persist")
    assert code == 1
    assert (
        "the key of the server's tokens cannot be used: .harness/serve.key: Is a directory" in said
        or "it may yet" in said
    )
    assert "an old reason" not in said


def test_other_machines_need_tls_or_a_decision(project: Project) -> None:
    code, told = harness(project.path, "serve", "--host", "0.0.0.0")
    assert (code, "set `tls_cert` and `tls_key`" in told) == (1, True)
    (project.path / "pyproject.toml").write_text('[tool.harness.serve]\ntls_cert = "a"\ntls_key = "b"\n', "utf-8")
    code, told = harness(project.path, "serve")
    assert (code, "are no certificate and key" in told) == (1, True)


def test_a_port_of_somebody_else_is_told_with_its_process(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, told = harness(project.path, "serve", "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "Address already in use, by pid" in told
