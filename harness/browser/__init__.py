"""The browser: the only importer of Playwright."""

from harness.browser.endpoints import Endpoints
from harness.browser.launch import Browsers
from harness.browser.request import SessionRequest, StorageState, wants_webmcp
from harness.browser.session import PlaywrightSession
from harness.browser.storage import Storage

__all__ = ["Browsers", "Endpoints", "PlaywrightSession", "SessionRequest", "Storage", "StorageState", "wants_webmcp"]
