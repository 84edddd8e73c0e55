"""A site that counts orders, for tests whose slots die: `python order_site.py PORT`, 0 for a free one.

`/?order=N&slow=S` answers after S seconds with a form that posts order N; `/orders` are the counts.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ORDERS: Counter[str] = Counter()
PAGE = """<!doctype html><title>Orders</title>
<form method="post" action="/order?{query}"><button id="buy">Buy</button></form>"""
DONE = '<!doctype html><title>Done</title><p id="done">ordered</p>'


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/orders":
            self.answer(json.dumps(ORDERS), "application/json")
            return
        threading.Event().wait(float(query.get("slow", 0)))
        self.answer(PAGE.format(query=address.query) if address.path == "/" else DONE)

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        ORDERS[query["order"][0]] += 1
        threading.Event().wait(float(query.get("hold", ["0"])[0]))
        self.answer(DONE)

    def answer(self, text: str, kind: str = "text/html") -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # the browser was killed
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Site)
    print(server.server_address[1], flush=True)
    server.serve_forever()
