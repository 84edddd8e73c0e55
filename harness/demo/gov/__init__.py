"""gov.local: permits, their renewal in a few pages, and the appointment."""

from __future__ import annotations

from harness.demo.gov import appointment, permits, renewal
from harness.demo.gov.access import LOGIN

ROUTES = [*LOGIN.routes(), *permits.ROUTES, *renewal.ROUTES, *appointment.ROUTES]
