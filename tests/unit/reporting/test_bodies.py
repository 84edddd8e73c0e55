"""Request and response bodies."""

from __future__ import annotations

import base64
import json

from harness.reporting.redact_files import redact_base64, redact_body, redact_bytes
from harness.reporting.redaction import MARK, Redactor

NONE = Redactor()


def test_json_by_name_at_any_depth() -> None:
    body = json.dumps({"user": "ann", "auth": [{"password": "hunter2", "pin": 1234}], "tokens": None})
    assert json.loads(redact_body(body, "application/json", NONE)) == {
        "user": "ann", "auth": [{"password": MARK, "pin": MARK}], "tokens": None,
    }  # fmt: skip


def test_json_without_secrets_stays_byte_for_byte() -> None:
    assert redact_body('{"a" :  1}', "application/json", NONE) == '{"a" :  1}'


def test_forms() -> None:
    assert (
        redact_body("user=ann&password=hunter2&x=", "application/x-www-form-urlencoded", NONE)
        == f"user=ann&password={MARK}&x="
    )


def test_a_form_of_unknown_type() -> None:
    assert redact_body("u=&pw=hunter2", "", NONE) == f"u=&pw={MARK}"


def test_multipart() -> None:
    part = 'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    body = f"--x\r\n{part.format('password', 'hunter2')}--x\r\n{part.format('q', 'mouse')}--x--"
    masked = redact_body(body, "multipart/form-data; boundary=x", NONE)
    assert "hunter2" not in masked
    assert "mouse" in masked


def test_password_fields_of_html() -> None:
    html = '<p>hi</p><input value=\'hunter2\' type="password"><input value="mouse" name=q>'
    assert (
        redact_body(html, "text/html", NONE)
        == f'<p>hi</p><input value="{MARK}" type="password"><input value="mouse" name=q>'
    )


def test_base64_text_is_decoded_and_encoded_again() -> None:
    body = base64.b64encode(b'{"token":"abc"}').decode()
    assert json.loads(base64.b64decode(redact_base64(body, "application/json", NONE))) == {"token": MARK}


def test_base64_pictures_stay() -> None:
    body = base64.b64encode(b"\x89PNG\xff\xfe").decode()
    assert redact_base64(body, "image/png", NONE) == body
    assert redact_base64("*no base64*", "", NONE) == "*no base64*"


def test_broken_json_still_loses_secret_values() -> None:
    assert redact_bytes(b'{"a": hunter22', "application/json", Redactor(["hunter22"])) == b'{"a": ' + MARK.encode()
