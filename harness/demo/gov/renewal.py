"""The renewal's pages before the appointment: personal data, documents, review."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.gov.access import LOGIN, own_application
from harness.demo.rows import Document
from harness.demo.visit import field, page, see_other, upload, world_id, worlds

DOCUMENTS = {"passport": "Passport", "photo": "Passport photo", "address": "Proof of address"}
ACCEPTED = (".pdf", ".png", ".jpg", ".jpeg")
LARGEST_BYTES = 5_000_000


@LOGIN.required
async def details(request: Request, document: Document, user: str) -> Response:
    """The page for checking the personal data."""
    return _page(request, document, user, "details", "")


@LOGIN.required
async def confirm_details(request: Request, document: Document, user: str) -> Response:
    """POST: store the citizen's present phone and e-mail."""
    form = await request.form()
    phone, email = field(form, "phone"), field(form, "email")
    if not phone or "@" not in email:
        return _page(request, document, user, "details", "Please give a phone number and an e-mail address.")
    with worlds(request).change(world_id(request)) as world:
        application = own_application(world, request, user)
        world["gov"]["citizens"][user] |= {"phone": phone, "email": email}
        world["gov"]["applications"][application["id"]] = application | {"details_confirmed": True}
    return see_other(f"/renewal/{application['id']}/documents")


@LOGIN.required
async def documents(request: Request, document: Document, user: str) -> Response:
    """The page for the three uploads."""
    return _page(request, document, user, "documents", "")


@LOGIN.required
async def take_documents(request: Request, document: Document, user: str) -> Response:
    """POST: keep name, type and size of each document."""
    form = await request.form()
    files = {kind: await upload(form, kind) for kind in DOCUMENTS}
    error = next((text for kind, file in files.items() if (text := _objection(kind, file))), "")
    if error:
        return _page(request, document, user, "documents", error)
    with worlds(request).change(world_id(request)) as world:
        application = own_application(world, request, user)
        world["gov"]["documents"] |= {
            f"{application['id']}-{kind}": {"application": application["id"], "kind": kind, **(file or {})}
            for kind, file in files.items()
        }
    return see_other(f"/renewal/{application['id']}/review")


@LOGIN.required
async def review(request: Request, document: Document, user: str) -> Response:
    """The page with an overview of everything, and the declaration."""
    return _page(request, document, user, "review", "")


@LOGIN.required
async def declare(request: Request, document: Document, user: str) -> Response:
    """POST: accept the declaration; every document must be uploaded."""
    form = await request.form()
    if len(uploaded(document["gov"], request.path_params["application"])) < len(DOCUMENTS):
        return _page(request, document, user, "review", "Some documents are missing.")
    if not field(form, "declaration"):
        return _page(request, document, user, "review", "Please accept the declaration.")
    with worlds(request).change(world_id(request)) as world:
        application = own_application(world, request, user)
        world["gov"]["applications"][application["id"]] = application | {"declared": world["world"]["now"]}
    return see_other(f"/renewal/{application['id']}/appointment")


def uploaded(gov: Document, application: str) -> list[dict[str, Any]]:
    """Return the documents of an application in the order of the form."""
    found = (gov["documents"].get(f"{application}-{kind}") for kind in DOCUMENTS)
    return [dict(entry) for entry in found if entry]


def _objection(kind: str, file: dict[str, Any] | None) -> str:
    label = DOCUMENTS[kind]
    if file is None:
        return f"{label}: please choose a file."
    if not str(file["name"]).lower().endswith(ACCEPTED):
        return f"{label}: only PDF, PNG and JPEG files are accepted."
    if not 0 < file["size"] <= LARGEST_BYTES:
        return f"{label}: the file is empty or larger than 5 MB."
    return ""


def _page(request: Request, document: Document, user: str, name: str, error: str) -> Response:
    gov = document["gov"]
    application = own_application(document, request, user)
    context = {
        "application": application,
        "permit": gov["permits"][application["permit"]],
        "citizen": gov["citizens"][user],
        "documents": uploaded(gov, application["id"]),
        "kinds": DOCUMENTS,
    }
    return page(request, f"gov/{name}.html", context | {"error": error, "user": gov["users"][user]})


ROUTES = [
    Route("/renewal/{application}/details", details, methods=["GET"]),
    Route("/renewal/{application}/details", confirm_details, methods=["POST"]),
    Route("/renewal/{application}/documents", documents, methods=["GET"]),
    Route("/renewal/{application}/documents", take_documents, methods=["POST"]),
    Route("/renewal/{application}/review", review, methods=["GET"]),
    Route("/renewal/{application}/review", declare, methods=["POST"]),
]
