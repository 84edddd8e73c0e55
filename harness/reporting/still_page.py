"""A page that only displays: it has no scripts, loads nothing, and all of its content is escaped."""

from __future__ import annotations

import html
from typing import Final

from harness.reporting.redact_files import POLICY

_STYLE: Final = (
    "html{background:#fff;color:#1c2024}body{font:14px/1.45 system-ui,sans-serif;margin:12px}"
    "table{border-collapse:collapse;width:100%}th,td{padding:3px 10px 3px 0;text-align:left;vertical-align:top}"
    "th{border-bottom:2px solid #c3c9d0;font-weight:600}td{border-bottom:1px solid #e6e9ec}"
    ".bad td{background:#fdeceb}.n{text-align:right;white-space:nowrap}.u{overflow-wrap:anywhere;min-width:16em}"
    ".m{color:#5a646e}.s{white-space:nowrap}"
)


def still_page(title: str, body: str, style: str = "") -> str:
    """An HTML document; the texts in `body` are escaped already."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style></head>\n<body>\n{body}</body></html>\n"
    )


def row(cells: list[tuple[str, object]], kind: str = "", last: str | None = None) -> str:
    """A row of a table: (class, text) for each cell; the texts are escaped here. `last`: one more cell, as HTML."""
    written = "".join(f'<td class="{name}">{html.escape(str(text))}</td>' for name, text in cells)
    written += "" if last is None else f"<td>{last}</td>"
    return f'<tr class="{kind}">{written}</tr>\n'
