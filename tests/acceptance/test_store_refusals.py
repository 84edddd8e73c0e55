"""What a storage of S3 answers decides about the exit status: 75 if a repetition can help, else 4 with the reason."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.acceptance.preempted import Suite, storage_of_s3

pytestmark = pytest.mark.thorough
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
STORED = "--task-store=s3://my-results/run-42"


@contextmanager
def storage_that_answers(status: int, code: str) -> Iterator[str]:
    """The URL of a storage that answers every request with this error."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    class Refuses(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # clients wait for `100 Continue`

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    made = Suite(tmp_path_factory.mktemp("refused") / "project", 1)
    yield made
    made.close()


def environ(home: Path, **given: str) -> dict[str, str]:
    """An environment in which nothing but what is given tells of S3."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    quick = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}
    return {**usual, "HOME": str(home), **quick, **given}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, "Not set here: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ACCESS_KEY_ID": "x"}, "Not set here: AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": ""}, "Set here, but empty: AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "nobody"}, "The config profile (nobody) could not be found"),
    ],
    ids=["none", "half", "empty", "profile"],
)
def test_missing_keys_are_named_and_no_repetition_is_asked_for(
    suite: Suite, tmp_path: Path, keys: dict[str, str], told: str
) -> None:
    with storage_that_answers(403, "AccessDenied") as url:
        status, output = suite.run(STORED, environ=environ(tmp_path, AWS_ENDPOINT_URL=url, **keys))
    assert (status, told in output) == (pytest.ExitCode.USAGE_ERROR, True), output
    assert suite.placed() == {}


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "AccessDenied", 4),
        (403, "InvalidAccessKeyId", 4),
        (403, "SignatureDoesNotMatch", 4),
        (400, "ExpiredToken", 4),
        (404, "NoSuchBucket", 4),
        (500, "InternalError", 75),
        (503, "SlowDown", 75),
    ],
)
def test_a_refusal_is_told_and_a_trouble_of_the_storage_asks_for_a_repetition(
    suite: Suite, tmp_path: Path, status: int, code: str, expected: int
) -> None:
    with storage_that_answers(status, code) as url:
        found, output = suite.run(STORED, environ=environ(tmp_path, AWS_ENDPOINT_URL=url, **KEYS))
    assert (found, "--task-store: s3://my-results/run-42" in output) == (expected, True), output
    assert suite.placed() == {}


def test_a_storage_that_is_not_there_asks_for_a_repetition(suite: Suite, tmp_path: Path) -> None:
    with storage_that_answers(200, "") as url:
        pass
    found, output = suite.run(STORED, environ=environ(tmp_path, AWS_ENDPOINT_URL=url, **KEYS))
    assert found == 75, output


def test_a_bucket_that_does_not_exist_is_told(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    with storage_of_s3(monkeypatch):
        found, output = suite.run("--task-store=s3://another/run-42")
    assert (found, "--task-store: s3://another/run-42" in output) == (4, True), output
