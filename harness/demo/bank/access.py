"""The login of the bank."""

from __future__ import annotations

from harness.demo.login import Login

LOGIN = Login(site="bank", secrets={"demo": "demo-pass"}, home="/accounts")
