"""The server of a report: this machine alone, and what pages have filled is sandboxed."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from harness.reporting.allure.serve import SANDBOX, is_untrusted, report_server, serve_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    report = tmp_path / "report"
    for place in ("data/attachments", "traces", "widgets"):
        (report / place).mkdir(parents=True)
    (report / "index.html").write_text("hello")
    (report / "data/attachments/1.html").write_text("<script>alert(1)</script>")
    (report / "traces/index.html").write_text("traces")
    (tmp_path / "secret.txt").write_text("secret")
    (report / "way-out").symlink_to(tmp_path)
    return report


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with report_server(folder) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        yield server.server_port
        server.shutdown()


def get(port: int, path: str, **headers: str) -> HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_the_report_is_served_and_never_cached(port: int) -> None:
    reply = get(port, "/")
    assert (reply.read(), reply.headers["Cache-Control"]) == (b"hello", "no-store")
    assert (reply.headers["X-Content-Type-Options"], reply.headers["Content-Security-Policy"]) == ("nosniff", None)


def test_what_a_page_has_filled_is_sandboxed(port: int) -> None:
    reply = get(port, "/data/attachments/1.html?attachment")
    assert (reply.status, reply.headers["Content-Security-Policy"]) == (200, SANDBOX)
    assert get(port, "/traces/index.html").headers["Content-Security-Policy"] is None


@pytest.mark.parametrize(
    "path", ["/data//attachments/1.html", "/data/%61ttachments/1.html", "/./data/attachments/1.html"]
)
def test_other_spellings_are_sandboxed_too(port: int, path: str) -> None:
    reply = get(port, path)
    assert reply.status != 200 or reply.headers["Content-Security-Policy"] == SANDBOX


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/way-out/secret.txt", "/data/../../secret.txt"]
)
def test_nothing_leads_out_of_the_report(port: int, path: str) -> None:
    assert get(port, path).status == 404


def test_folders_are_not_listed(port: int) -> None:
    assert get(port, "/data/attachments/").status == 404


def test_a_web_site_cannot_read_it_by_its_own_name(port: int) -> None:
    assert get(port, "/", Host=f"evil.test:{port}").status == 403
    assert get(port, "/", Host=f"localhost:{port}").status == 200


def test_what_is_untrusted() -> None:
    assert all(map(is_untrusted, ("/data/x", "/traces/a.zip", "/traces/", "/data/attachments/index.html")))
    assert not any(map(is_untrusted, ("/index.html", "/traces/index.html", "/trace-viewer/x", "/")))


def test_the_browser_is_given_the_address_and_ctrl_c_ends_it(folder: Path) -> None:
    said: list[str] = []
    opened: list[str] = []

    def browser(address: str) -> None:
        opened.append(address)
        raise KeyboardInterrupt

    serve_folder(folder, 0, said.append, browser)
    assert said == [f"report at {opened[0]} (Ctrl-C ends)"]
    assert opened[0].startswith("http://127.0.0.1:")
