"""The words of Playwright, as Python has them."""

from __future__ import annotations

from harness.spec.imported import acts, expecting, locating, reading

PROPERTIES = frozenset({
    "first", "last", "url", "status", "ok", "context", "content_frame", "message", "suggested_filename",
    "main_frame", "body", "pages",
})  # fmt: skip
"""Methods without arguments in JavaScript that are properties in Python."""
VOCABULARY = frozenset({
    *acts.ELEMENT_METHODS, *acts.ON_PAGE, *acts.IN_CONTEXT, *locating.MAKING, *reading.READS, *expecting.ELEMENT,
    *("title", "wait_for_event", "wait_for_response", "wait_for_request", "wait_for_navigation", "insert_text"),
    *("new_page", "new_context", "post", "put", "patch", "delete", "get", "fulfill", "storage_state", "add_cookies"),
    *("add_init_script", "add_locator_handler", "is_visible", "set_files", "main_frame", "continue", "wheel"),
}) - {"delete", "get", "and_", "or_"}  # fmt: skip
"""Methods that are told by their name; those of a page object may have the same name."""
