"""gov.local without a browser."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from starlette.testclient import TestClient

from harness.demo.gov import days, is_open
from tests.unit.demo.conftest import Visit

FILES = {
    "passport": ("passport.pdf", b"%PDF-1.4", "application/pdf"),
    "photo": ("photo.png", b"\x89PNG", "image/png"),
    "address": ("bill.pdf", b"%PDF-1.4 bill", "application/pdf"),
}


def env(visit: Visit) -> Any:
    return visit("world").get("/env").json()["gov"]


@pytest.fixture
def gov(visit: Visit) -> TestClient:
    """A client that is logged in."""
    client = visit("gov")
    client.post("/login", data={"user": "C-204815", "secret": "2468"})
    return client


def prepare(gov: TestClient) -> None:
    """Go through the renewal up to the calendar."""
    gov.post("/permits/RP-2024-77/renewal")
    gov.post("/renewal/A-3001/details", data={"phone": "+1 5", "email": "a@b.local"})
    gov.post("/renewal/A-3001/documents", files=FILES)
    gov.post("/renewal/A-3001/review", data={"declaration": "yes"})


def test_a_renewal_ends_in_a_booked_appointment(visit: Visit, gov: TestClient) -> None:
    prepare(gov)
    page = gov.post("/renewal/A-3001/appointment", data={"date": "2025-12-01", "time": "10:00"}).text
    assert 'id="appointment-id">APT-9988<' in page
    document = env(visit)
    appointment = document["appointments"]["APT-9988"]
    assert (appointment["status"], appointment["date"], appointment["time"]) == ("booked", "2025-12-01", "10:00")
    assert document["permits"]["RP-2024-77"]["status"] == "renewal_pending"
    assert document["applications"]["A-3001"]["status"] == "submitted"
    passport = document["documents"]["A-3001-passport"]
    assert (passport["name"], passport["size"]) == ("passport.pdf", 8)
    assert document["citizens"]["C-204815"]["phone"] == "+1 5"
    confirmation = gov.get("/appointments/APT-9988/confirmation")
    assert confirmation.headers["content-disposition"] == 'attachment; filename="APT-9988.txt"'
    assert "Date: 2025-12-01\nTime: 10:00" in confirmation.text


def test_a_booked_time_is_no_longer_free(visit: Visit, gov: TestClient) -> None:
    prepare(gov)
    gov.post("/renewal/A-3001/appointment", data={"date": "2025-12-01", "time": "10:00"})
    assert gov.get("/api/slots?date=2025-12-01").json()["times"] == ["09:00", "11:00"]
    taken = gov.post("/renewal/A-3001/appointment", data={"date": "2025-12-01", "time": "10:00"})
    assert "not free" in taken.text
    assert list(env(visit)["appointments"]) == ["APT-9988"]


def test_the_calendar_comes_after_the_declaration(gov: TestClient) -> None:
    gov.post("/permits/RP-2024-77/renewal")
    early = gov.get("/renewal/A-3001/appointment", follow_redirects=False)
    assert early.headers["location"] == "/renewal/A-3001/review"
    assert "documents are missing" in gov.post("/renewal/A-3001/review", data={"declaration": "yes"}).text


def test_an_open_renewal_is_continued(visit: Visit, gov: TestClient) -> None:
    for _ in range(2):
        assert gov.post("/permits/RP-2024-77/renewal", follow_redirects=False).headers["location"] == (
            "/renewal/A-3001/details"
        )
    assert list(env(visit)["applications"]) == ["A-3001"]


@pytest.mark.parametrize(
    ("kind", "file", "message"),
    [
        ("photo", ("photo.exe", b"MZ", "image/png"), "Passport photo: only PDF"),
        ("passport", ("passport.pdf", b"", "application/pdf"), "Passport: the file is empty"),
        ("address", None, "Proof of address: please choose"),
    ],
)
def test_a_document_is_looked_at(visit: Visit, gov: TestClient, kind: str, file: Any, message: str) -> None:
    gov.post("/permits/RP-2024-77/renewal")
    files = {name: sent for name, sent in {**FILES, kind: file}.items() if sent}
    assert message in gov.post("/renewal/A-3001/documents", files=files).text
    assert env(visit)["documents"] == {}


def test_permits_of_others_are_not_there(visit: Visit, gov: TestClient) -> None:
    visit("world").patch("/env", json={"gov": {"permits": {"PK-2023-05": {"holder": "C-1"}}}})
    assert gov.get("/permits/PK-2023-05").status_code == 404
    assert "PK-2023-05" not in gov.get("/permits").text


def test_the_office_is_open_on_working_days_to_come() -> None:
    assert is_open(date(2025, 12, 1), "2025-11-16")
    assert not is_open(date(2025, 12, 6), "2025-11-16")
    assert not is_open(date(2025, 11, 14), "2025-11-16")
    assert not is_open(date(2025, 11, 17), "2025-11-17")
    assert len(days(2028, 2, "2025-11-16")) == 29


@pytest.mark.parametrize("query", ["month=2025-13", "month=0000-01", "month=x", ""])
def test_what_is_no_month_is_refused(visit: Visit, query: str) -> None:
    assert visit("gov").get(f"/api/calendar?{query}").status_code == 400


def test_what_is_no_day_has_no_times(visit: Visit) -> None:
    assert visit("gov").get("/api/slots?date=2025-02-31").json()["times"] == []


def test_the_widget_is_a_setting_of_the_world(visit: Visit, gov: TestClient) -> None:
    prepare(gov)
    assert 'data-widget="grid"' in gov.get("/renewal/A-3001/appointment").text
    visit("world").patch("/env", json={"gov": {"settings": {"calendar": {"widget": "table"}}}})
    assert 'data-widget="table"' in gov.get("/renewal/A-3001/appointment").text
