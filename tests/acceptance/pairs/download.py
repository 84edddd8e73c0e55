"""A file that is fetched, as pytest-playwright has it."""

from playwright.sync_api import Page


def test_download(page: Page) -> None:
    page.goto("/download")
    with page.expect_download() as info:
        page.get_by_text("Export").click()
    assert info.value.suggested_filename == "report.csv"
    assert info.value.path().read_text() == "id,total\n7,30\n"
