"""Takes the pictures in docs/images.

`python -m tools.docs.pictures reports FOLDER TASK_ID docs/images` takes the dashboard, a failure's Allure report, and
its trace in the viewer, light and dark. FOLDER is a project in which that task has just failed with
`pytest tasks/ --alluredir allure-results`: that of docs/own-site.md, with a criterion that does not hold, and for the
dashboard (`dashboard` in place of `reports` takes it alone) also a misspelt selector and a site that is not there.

`python -m tools.docs.pictures live FOLDER TASK_ID docs/images` runs the tasks of the same project, and takes the live
view when that task has failed, light and dark.

`python -m tools.docs.pictures failure FOLDER TASK_ID docs/images` runs a task that fails, and takes the picture of the
README: the terminal beside the dashboard, light and dark. FOLDER has the README's first task, in which `#search-box` is
misspelt `#search-field` once.

`python -m tools.docs.pictures evaluation FOLDER "" docs/images` takes the page of an evaluation. FOLDER has the results
of the first command of docs/evaluation.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize, sync_playwright

from harness.browser.executable import find
from harness.model.browser_settings import BrowserSettings

SIZE: ViewportSize = {"width": 1200, "height": 760}
SCHEMES: dict[Literal["light", "dark"], str] = {"light": "", "dark": "-dark"}
"""What a picture shows, and how its name ends then."""
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


def open_dashboard(page: Page, folder: Path, task: str) -> None:
    """Open the dashboard of the last run, with the details of a task that failed."""
    page.goto((folder / "dashboard.html").as_uri())
    page.locator("details.row > summary", has_text=task).click()
    page.mouse.move(0, 0)


def in_both(page: Page, output: Path, name: str) -> None:
    """Take the page as it is, light and dark."""
    for scheme, suffix in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        page.screenshot(path=output / f"{name}{suffix}.png")


def take_dashboard(page: Page, folder: Path, task: str, output: Path) -> None:
    subprocess.run([*HARNESS, "dashboard"], cwd=folder, check=True)
    open_dashboard(page, folder, task)
    in_both(page, output, "dashboard")


def take(page: Page, folder: Path, task: str, output: Path) -> None:
    take_dashboard(page, folder, task, output)
    with serve(folder, "report", "--serve", "0") as address:
        page.goto(address)
        page.get_by_text(task).first.click()
        page.wait_for_timeout(3000)
        in_both(page, output, "allure")
    with serve(folder, "open", task, "--no-browser") as address:
        page.goto(address)
        page.get_by_text("The page at the end").first.click()
        page.wait_for_timeout(2000)
        in_both(page, output, "trace")


def take_live(page: Page, folder: Path, task: str, output: Path) -> None:
    """Take the live view of a run that has not ended, when the task has failed."""
    with serve(folder, "run", "--task-live", "-s", "-v") as address:
        page.goto(address)
        page.get_by_text(task).first.wait_for(timeout=120_000)
        page.get_by_text("CRITERIA_UNMET").first.wait_for(timeout=120_000)
        page.get_by_text("No task runs at this moment").wait_for(state="hidden")
        in_both(page, output, "live")


def take_failure(page: Page, folder: Path, task: str, output: Path) -> None:
    """Take what the terminal and the dashboard show of a run of the task, side by side, light and dark."""
    run = subprocess.run(
        [*HARNESS, "run", "-k", task, "--color=yes"], cwd=folder, capture_output=True, text=True, check=False
    )
    screen = run.stdout[run.stdout.index(f"{task} failed") :].partition("\n\x1b[36m")[0]
    subprocess.run([*HARNESS, "dashboard"], cwd=folder, check=True)
    for scheme, suffix in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(SIZE)
        open_dashboard(page, folder, task)
        dashboard = b64encode(page.screenshot()).decode()
        text = escape(f"$ pytest tasks/\n{screen}")
        page.set_viewport_size({"width": 2400, "height": 800})
        page.set_content(SIDE_BY_SIDE.format(scheme=scheme, text=text, dashboard=dashboard))
        page.locator("main").screenshot(path=output / f"failure{suffix}.png", omit_background=True)


def take_evaluation(page: Page, folder: Path, _task: str, output: Path) -> None:
    """Take the page of an evaluation, light and dark."""
    for scheme, name in (("light", "evaluation.png"), ("dark", "evaluation-dark.png")):
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        page.goto((folder / "index.html").as_uri())
        page.screenshot(path=output / name)


SIDE_BY_SIDE = """\
<style>
  main {{ display: inline-flex; gap: 16px; align-items: stretch; padding: 4px; font: 13px/1.55 monospace }}
  pre, img {{ margin: 0; border: 1px solid #8888; border-radius: 8px }}
  pre {{ padding: 16px; font: inherit }}
  .light pre {{ background: #fff; color: #1f2328 }} .dark pre {{ background: #0d1117; color: #e6edf3 }}
  img {{ height: 480px }}
</style>
<main class={scheme}><pre>{text}</pre><img src="data:image/png;base64,{dashboard}"></main>
"""


def main(take_pictures: Callable[[Page, Path, str, Path], None], folder: Path, task: str, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=find(BrowserSettings(), own, os.environ))
        take_pictures(browser.new_page(viewport=SIZE), folder.resolve(), task, output)
        browser.close()


if __name__ == "__main__":
    kinds = {
        "reports": take, "dashboard": take_dashboard, "live": take_live, "failure": take_failure,
        "evaluation": take_evaluation,
    }  # fmt: skip
    main(kinds[sys.argv[1]], Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
