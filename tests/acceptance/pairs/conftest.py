"""The Playwright halves give up as soon as the task files do."""

from playwright.sync_api import expect

expect.set_options(timeout=1000)
