"""models.local: language models that follow scripts, behind the protocols of OpenAI and Anthropic."""

from __future__ import annotations

from harness.demo.models.service import KEY, ROUTES

__all__ = ["KEY", "ROUTES"]
