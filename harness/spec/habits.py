"""Words that people bring from other tools -> what a task file has instead. Pure tables."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ACTS: Mapping[str, tuple[str, ...]] = {
    "open": ("goto", "navigate", "navigateto", "visit", "go", "gotourl", "load", "url"),
    "click": ("clickon", "leftclick"),
    "tap": ("touch", "touchscreen"),
    "clear": ("empty", "cleartext"),
    "type": ("fill", "fillin", "input", "write", "enter", "settext", "setvalue"),
    "select": ("selectoption", "selectoptions", "choose", "pick"),
    "press": ("key", "keypress", "keydown", "presskey", "hotkey", "keyboard", "keyboardpress"),
    "hover": ("mouseover", "moveto", "mousemove"),
    "check": ("setchecked", "tick"),
    "uncheck": ("untick",),
    "drag": ("draganddrop", "dragto", "dragdrop"),
    "scroll": ("scrollto", "scrollintoview", "scrollintoviewifneeded", "wheel", "mousewheel"),
    "wait": ("waitfor", "waitforselector", "waitfortimeout", "waitforelement", "waituntil", "sleep", "pause", "delay"),
    "upload": ("setinputfiles", "setfiles", "attachfile", "selectfile", "uploadfile"),
    "download": ("waitfordownload", "downloadfile"),
    "api": ("request", "fetch", "http", "httprequest", "apirequest"),
    "assert": ("expect", "verify", "should", "assertthat", "waitforurl"),
    "switch_page": ("switchtab", "switchto", "bringtofront", "newpage", "switchwindow"),
    "dialog": ("alert", "confirm", "prompt", "acceptdialog", "dismissdialog", "acceptalert"),
    "screenshot": ("takescreenshot", "snapshot"),
}
_ACT_OF = {word: act for act, words in _ACTS.items() for word in words}
_WITH = {"open": ", with the address as `url`", "type": ", with the text as `value`"}
_NONE = {
    "presssequentially": "write `type` with `keys: true`",
    "sendkeys": "write `type` with `keys: true`",
    "dblclick": "write `click` with `count: 2`",
    "doubleclick": "write `click` with `count: 2`",
    "rightclick": "write `click` with `button: right`",
    "evaluate": "no act runs a script of the task in the page",
}  # fmt: skip


def act_instead(word: str) -> str:
    """The act that a word of another tool (`goto`, `page.fill`) stands for, as a hint; empty for other words."""
    bare = re.sub(r"[\s_-]|\(.*", "", word.rpartition(".")[2]).lower()
    if bare in _NONE:
        return _NONE[bare]
    act = _ACT_OF.get(bare)
    return f"write `{act}`{_WITH.get(act, '')}" if act else ""


def in_seconds(found: object, most: object) -> str:
    """A hint for a number beyond the limit of a key that takes seconds: it was surely meant in milliseconds."""
    if isinstance(found, int | float) and isinstance(most, int | float) and found / 1000 <= most < found:
        return f"seconds, not milliseconds: write {found / 1000:g}"
    return ""


def takes_seconds(description: str | None) -> bool:
    """Return whether a key takes seconds: its description says so at its end, or at its beginning."""
    return description is not None and (description.endswith("in seconds.") or description.startswith("Seconds "))
