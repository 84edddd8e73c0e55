"""gov.local: permits, their renewal in a few pages, and the appointment."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.demo.login import Login
from harness.demo.visit import attachment, document, field, next_number, page, see_other, upload, world_id, worlds
from harness.demo.worlds import Document

LOGIN = Login(site="gov", secrets={"C-204815": "2468"}, home="/dashboard", template="gov/login.html")


def owned(collection: Document, key: str, citizen: str) -> dict[str, Any]:
    """Return an entry that belongs to the citizen; raise 404 for anyone else's."""
    entry = collection.get(key)
    if entry is None or entry.get("holder") != citizen:
        raise HTTPException(404)
    return dict(entry)


def _own_application(document: Document, request: Request, citizen: str) -> dict[str, Any]:
    """Return the application that the address of the request names; raise 404 for anyone else's."""
    return owned(document["gov"]["applications"], request.path_params["application"], citizen)


# Dashboard and permits.


async def root(_request: Request) -> Response:
    """GET /: the dashboard is the start page."""
    return see_other("/dashboard")


@LOGIN.required
async def dashboard(request: Request, document: Document, user: str) -> Response:
    """The page with permits that need attention, and the appointments."""
    permits, appointments = (_entries_of(document["gov"][name], user) for name in ("permits", "appointments"))
    return _page(request, document, user, "dashboard", permits=permits, appointments=appointments)


@LOGIN.required
async def listing(request: Request, document: Document, user: str) -> Response:
    """The page with all permits of the citizen."""
    return _page(request, document, user, "permits", permits=_entries_of(document["gov"]["permits"], user))


@LOGIN.required
async def detail(request: Request, document: Document, user: str) -> Response:
    """The page of one permit, with the button that starts its renewal."""
    permit = owned(document["gov"]["permits"], request.path_params["permit"], user)
    return _page(request, document, user, "permit", permit=permit)


@LOGIN.required
async def renew(request: Request, _document: Document, user: str) -> Response:
    """POST: start the renewal, or continue an open one."""
    with worlds(request).change(world_id(request)) as world:
        permit = owned(world["gov"]["permits"], request.path_params["permit"], user)
        application = _open_application(world["gov"], permit["id"]) or _start(world, permit)
    return see_other(f"/renewal/{application}/details")


def _open_application(gov: Document, permit: str) -> str | None:
    for key, application in gov["applications"].items():
        if application["permit"] == permit and application["status"] == "draft":
            return str(key)
    return None


def _start(world: Document, permit: dict[str, Any]) -> str:
    gov = world["gov"]
    number = f"A-{next_number(gov['numbers'], 'application')}"
    gov["applications"][number] = {
        "id": number,
        "permit": permit["id"],
        "holder": permit["holder"],
        "status": "draft",
        "started": world["world"]["now"],
    }
    return number


def _page(request: Request, document: Document, user: str, template: str, **context: Any) -> Response:
    return page(request, f"gov/{template}.html", {"user": document["gov"]["users"][user], **context})


def _entries_of(collection: Document, citizen: str) -> list[dict[str, Any]]:
    return [entry for _, entry in sorted(collection.items()) if entry.get("holder") == citizen]


# The renewal's pages before the appointment: personal data, documents, review.

DOCUMENTS = {"passport": "Passport", "photo": "Passport photo", "address": "Proof of address"}
ACCEPTED = (".pdf", ".png", ".jpg", ".jpeg")
_LARGEST_BYTES = 5_000_000


@LOGIN.required
async def details(request: Request, document: Document, user: str) -> Response:
    """The page for checking the personal data; POST stores the citizen's present phone and e-mail."""
    if request.method != "POST":
        return _form(request, document, user, "details")
    form = await request.form()
    phone, email = field(form, "phone"), field(form, "email")
    if not phone or "@" not in email:
        return _form(request, document, user, "details", "Please give a phone number and an e-mail address.")
    with worlds(request).change(world_id(request)) as world:
        application = _own_application(world, request, user)
        world["gov"]["citizens"][user] |= {"phone": phone, "email": email}
        world["gov"]["applications"][application["id"]] = application | {"details_confirmed": True}
    return see_other(f"/renewal/{application['id']}/documents")


@LOGIN.required
async def documents(request: Request, document: Document, user: str) -> Response:
    """The page for the three uploads; POST keeps name, type and size of each."""
    if request.method != "POST":
        return _form(request, document, user, "documents")
    form = await request.form()
    files = {kind: await upload(form, kind) for kind in DOCUMENTS}
    error = next((text for kind, file in files.items() if (text := _objection(kind, file))), "")
    if error:
        return _form(request, document, user, "documents", error)
    with worlds(request).change(world_id(request)) as world:
        application = _own_application(world, request, user)
        world["gov"]["documents"] |= {
            f"{application['id']}-{kind}": {"application": application["id"], "kind": kind, **(file or {})}
            for kind, file in files.items()
        }
    return see_other(f"/renewal/{application['id']}/review")


@LOGIN.required
async def review(request: Request, document: Document, user: str) -> Response:
    """The page with an overview of everything, and the declaration; POST accepts it if every document is there."""
    if request.method != "POST":
        return _form(request, document, user, "review")
    form = await request.form()
    if len(_uploaded(document["gov"], request.path_params["application"])) < len(DOCUMENTS):
        return _form(request, document, user, "review", "Some documents are missing.")
    if not field(form, "declaration"):
        return _form(request, document, user, "review", "Please accept the declaration.")
    with worlds(request).change(world_id(request)) as world:
        application = _own_application(world, request, user)
        world["gov"]["applications"][application["id"]] = application | {"declared": world["world"]["now"]}
    return see_other(f"/renewal/{application['id']}/appointment")


def _uploaded(gov: Document, application: str) -> list[dict[str, Any]]:
    """Return the documents of an application in the order of the form."""
    found = (gov["documents"].get(f"{application}-{kind}") for kind in DOCUMENTS)
    return [dict(entry) for entry in found if entry]


def _objection(kind: str, file: dict[str, Any] | None) -> str:
    label = DOCUMENTS[kind]
    if file is None:
        return f"{label}: please choose a file."
    if not str(file["name"]).lower().endswith(ACCEPTED):
        return f"{label}: only PDF, PNG and JPEG files are accepted."
    if not 0 < file["size"] <= _LARGEST_BYTES:
        return f"{label}: the file is empty or larger than 5 MB."
    return ""


def _form(request: Request, document: Document, user: str, template: str, error: str = "") -> Response:
    """One of the renewal's pages, and the reason if its form was refused."""
    gov = document["gov"]
    application = _own_application(document, request, user)
    context = {
        "application": application,
        "permit": gov["permits"][application["permit"]],
        "citizen": gov["citizens"][user],
        "documents": _uploaded(gov, application["id"]),
        "kinds": DOCUMENTS,
        "error": error,
    }
    return _page(request, document, user, template, **context)


# The appointment: calendar, booking, confirmation.

_OFFICE = "Citizen Service Centre, 1 Capitol Square"
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


@LOGIN.required
async def book(request: Request, document: Document, user: str) -> Response:
    """The calendar page, which before the declaration leads back to the review; POST books the chosen day and time."""
    if request.method != "POST":
        return _choose(request, document, user)
    form = await request.form()
    day, time = field(form, "date"), field(form, "time")
    if time not in _free_times(document["gov"], day, document["world"]["now"][:10]):
        return _choose(request, document, user, "This time is not free. Please choose another one.")
    if not _own_application(document, request, user).get("declared"):
        return _choose(request, document, user)
    with worlds(request).change(world_id(request)) as world:
        number = _book(world, _own_application(world, request, user), day, time)
    return see_other(f"/appointments/{number}")


@LOGIN.required
async def booked(request: Request, document: Document, user: str) -> Response:
    """The confirmation page."""
    appointment = owned(document["gov"]["appointments"], request.path_params["appointment"], user)
    return _page(request, document, user, "appointment_booked", appointment=appointment)


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
    return JSONResponse({"date": day, "times": _free_times(world["gov"], day, world["world"]["now"][:10])})


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
        "office": _OFFICE,
        "status": "booked",
        "booked": world["world"]["now"],
    }
    gov["applications"][application["id"]] = application | {"status": "submitted", "appointment": number}
    gov["permits"][application["permit"]]["status"] = "renewal_pending"
    return number


def _choose(request: Request, document: Document, user: str, error: str = "") -> Response:
    application = _own_application(document, request, user)
    if not application.get("declared"):
        return see_other(f"/renewal/{application['id']}/review")
    context = {
        "application": application,
        "widget": document["gov"]["settings"]["calendar"]["widget"],
        "month": document["world"]["now"][:7],
        "error": error,
    }
    return _page(request, document, user, "appointment", **context)


_TIMES = ("09:00", "10:00", "11:00")
_SATURDAY = 5


def days(year: int, month: int, today: str) -> list[dict[str, Any]]:
    """Return the days of a month and whether each can be booked: working days after ``today`` (ISO)."""
    last = calendar.monthrange(year, month)[1]
    dates = [date(year, month, day) for day in range(1, last + 1)]
    return [{"date": day.isoformat(), "open": is_open(day, today)} for day in dates]


def is_open(day: date, today: str) -> bool:
    """Return whether the office takes appointments on a day."""
    return day.weekday() < _SATURDAY and day.isoformat() > today


def _free_times(gov: Document, day: str, today: str) -> list[str]:
    """Return the free times of a day; none for a closed day or an invalid date."""
    try:
        wanted = date.fromisoformat(day)
    except ValueError:
        return []
    if not is_open(wanted, today):
        return []
    booked = {(entry.get("date"), entry.get("time")) for entry in gov["appointments"].values()}
    return [time for time in _TIMES if (day, time) not in booked]


ROUTES = [
    *LOGIN.routes(),
    Route("/", root),
    Route("/dashboard", dashboard),
    Route("/permits", listing),
    Route("/permits/{permit}", detail),
    Route("/permits/{permit}/renewal", renew, methods=["POST"]),
    Route("/renewal/{application}/details", details, methods=["GET", "POST"]),
    Route("/renewal/{application}/documents", documents, methods=["GET", "POST"]),
    Route("/renewal/{application}/review", review, methods=["GET", "POST"]),
    Route("/renewal/{application}/appointment", book, methods=["GET", "POST"]),
    Route("/appointments/{appointment}", booked),
    Route("/appointments/{appointment}/confirmation", confirmation),
    Route("/api/calendar", month),
    Route("/api/slots", times),
]
