"""The appointment: calendar, booking, confirmation."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.demo.gov.access import LOGIN, own_application, owned
from harness.demo.rows import Document
from harness.demo.visit import attachment, document, field, next_number, page, see_other, world_id, worlds

OFFICE = "Citizen Service Centre, 1 Capitol Square"
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


@LOGIN.required
async def choose(request: Request, document: Document, user: str) -> Response:
    """The calendar page; before the declaration it leads back to the review."""
    return _choose(request, document, user, "")


@LOGIN.required
async def book(request: Request, document: Document, user: str) -> Response:
    """POST: book the chosen day and time."""
    form = await request.form()
    day, time = field(form, "date"), field(form, "time")
    if time not in free_times(document["gov"], day, document["world"]["now"][:10]):
        return _choose(request, document, user, "This time is not free. Please choose another one.")
    if not own_application(document, request, user).get("declared"):
        return _choose(request, document, user, "")
    with worlds(request).change(world_id(request)) as world:
        number = _book(world, own_application(world, request, user), day, time)
    return see_other(f"/appointments/{number}")


@LOGIN.required
async def booked(request: Request, document: Document, user: str) -> Response:
    """The confirmation page."""
    appointment = owned(document["gov"]["appointments"], request.path_params["appointment"], user)
    context = {"appointment": appointment, "user": document["gov"]["users"][user]}
    return page(request, "gov/appointment_booked.html", context)


@LOGIN.required
async def confirmation(request: Request, document: Document, user: str) -> Response:
    """The confirmation as a text file."""
    entry = owned(document["gov"]["appointments"], request.path_params["appointment"], user)
    labels = {"id": "Appointment", "permit": "Permit", "date": "Date", "time": "Time", "office": "Office"}
    text = ["gov.local appointment confirmation", *(f"{label}: {entry.get(name)}" for name, label in labels.items())]
    return attachment("\n".join(text) + "\n", f"{entry['id']}.txt")


async def month(request: Request) -> JSONResponse:
    """GET /api/calendar?month=YYYY-MM: the days of a month."""
    found = _MONTH.fullmatch(request.query_params.get("month", ""))
    if found is None or found[1] == "0000":
        return JSONResponse({"error": "month must look like 2025-12"}, status_code=400)
    today = document(request)["world"]["now"][:10]
    return JSONResponse({"month": found[0], "days": days(int(found[1]), int(found[2]), today)})


async def times(request: Request) -> JSONResponse:
    """GET /api/slots?date=YYYY-MM-DD: the free times of a day."""
    world = document(request)
    day = request.query_params.get("date", "")
    return JSONResponse({"date": day, "times": free_times(world["gov"], day, world["world"]["now"][:10])})


def _book(world: Document, application: dict[str, Any], day: str, time: str) -> str:
    gov = world["gov"]
    number = f"APT-{next_number(gov['numbers'], 'appointment')}"
    gov["appointments"][number] = {
        "id": number,
        "application": application["id"],
        "permit": application["permit"],
        "holder": application["holder"],
        "date": day,
        "time": time,
        "office": OFFICE,
        "status": "booked",
        "booked": world["world"]["now"],
    }
    gov["applications"][application["id"]] = application | {"status": "submitted", "appointment": number}
    gov["permits"][application["permit"]]["status"] = "renewal_pending"
    return number


def _choose(request: Request, document: Document, user: str, error: str) -> Response:
    application = own_application(document, request, user)
    if not application.get("declared"):
        return see_other(f"/renewal/{application['id']}/review")
    context = {
        "application": application,
        "widget": document["gov"]["settings"]["calendar"]["widget"],
        "month": document["world"]["now"][:7],
        "error": error,
        "user": document["gov"]["users"][user],
    }
    return page(request, "gov/appointment.html", context)


ROUTES = [
    Route("/renewal/{application}/appointment", choose, methods=["GET"]),
    Route("/renewal/{application}/appointment", book, methods=["POST"]),
    Route("/appointments/{appointment}", booked),
    Route("/appointments/{appointment}/confirmation", confirmation),
    Route("/api/calendar", month),
    Route("/api/slots", times),
]
TIMES = ("09:00", "10:00", "11:00")
SATURDAY = 5


def days(year: int, month: int, today: str) -> list[dict[str, Any]]:
    """Return the days of a month and whether each can be booked: working days after ``today`` (ISO)."""
    last = calendar.monthrange(year, month)[1]
    dates = [date(year, month, day) for day in range(1, last + 1)]
    return [{"date": day.isoformat(), "open": is_open(day, today)} for day in dates]


def is_open(day: date, today: str) -> bool:
    """Return whether the office takes appointments on a day."""
    return day.weekday() < SATURDAY and day.isoformat() > today


def free_times(gov: Document, day: str, today: str) -> list[str]:
    """Return the free times of a day; none for a closed day or an invalid date."""
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        return []
    if not is_open(wanted, today):
        return []
    booked = {(entry.get("date"), entry.get("time")) for entry in gov["appointments"].values()}
    return [time for time in TIMES if (day, time) not in booked]
