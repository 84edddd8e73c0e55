"""Takes the pictures in docs/images: the dashboard, a failure's Allure report, and a real run's trace viewer.

Run as `python -m tools.docs.pictures FOLDER TASK_ID docs/images`. FOLDER is a project in which that task has just
failed with `pytest tasks/ --alluredir allure-results`: that of docs/own-site.md, with a criterion that does not hold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from harness.browser.executable import find
from harness.model.browser_settings import BrowserSettings

SIZE: ViewportSize = {"width": 1200, "height": 760}
HARNESS = [sys.executable, "-c", "from harness.cli import main; main()"]


@contextmanager
def serve(folder: Path, *command: str) -> Iterator[str]:
    """Serve with a command of harness; yields the address that it prints."""
    at_once = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*HARNESS, *command], cwd=folder, env=at_once, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = (re.search(r"http://127\.0\.0\.1:\S+", line) for line in process.stdout)
            yield next(match[0] for match in found if match)
        finally:
            process.terminate()


def take(page: Page, folder: Path, task: str, output: Path) -> None:
    subprocess.run([*HARNESS, "dashboard"], cwd=folder, check=True)
    page.goto((folder / "dashboard.html").as_uri())
    page.screenshot(path=output / "dashboard.png")
    with serve(folder, "report", "--serve", "0") as address:
        page.goto(address)
        page.get_by_text(task).first.click()
        page.wait_for_timeout(3000)
        page.screenshot(path=output / "allure.png")
    with serve(folder, "open", task, "--no-browser") as address:
        page.goto(address)
        page.get_by_text("The page at the end").first.click()
        page.wait_for_timeout(2000)
        page.screenshot(path=output / "trace.png")


def main(folder: Path, task: str, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=find(BrowserSettings(), own, os.environ))
        take(browser.new_page(viewport=SIZE), folder.resolve(), task, output)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
