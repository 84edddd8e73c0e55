"""A tiny site on a loopback port that answers well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

FORM = """<!doctype html><title>Form</title>
<form action=/saved method=get id=form>
  <input id=name name=name aria-label="Your name"><input id=date type=date><input id=file type=file multiple>
  <select id=colour name=colour><option value=r>Red<option value=g>Green</select>
  <select id=many multiple><option value=a>A<option value=b>B<option value=c>C</select>
  <label><input type=checkbox id=agree> I agree</label>
  <div id=editable contenteditable=true></div>
  <button id=send>Send</button>
</form>
<p id=out>nothing</p><p class=dup>one</p><p class=dup>two</p><p id=hidden style="display:none">hidden</p>
<button id=plain onclick="out.textContent='clicked'">Plain</button>
<button id=disabled disabled>No</button><button id=invisible style="display:none">No</button>
<div style="position:relative"><button id=covered>Under</button>
<div id=overlay class="modal bg" style="position:absolute;inset:0;background:#ccc">overlay</div></div>
<button id=moving>Moving</button>
<button id=late onclick="setTimeout(()=>{let p=document.createElement('p');p.id='appeared';
p.textContent='Order 17 done';document.body.append(p)},300)">Late</button>
<button id=alert onclick="alert('really?');out.textContent='answered'">Alert</button>
<button id=confirm onclick="out.textContent='confirm '+confirm('sure?')">Confirm</button>
<button id=prompt onclick="out.textContent='prompt '+prompt('who?', 'me')">Prompt</button>
<button id=loop onclick="while(true){}">Loop</button>
<button id=soon onclick="setTimeout(()=>{while(true){}},0)">Loop soon</button>
<button id=busy onclick="const t=performance.now();while(performance.now()-t<900){};
out.textContent='was busy'">Busy</button>
<button id=popup onclick="window.open('/popup')">Popup</button>
<button id=gone onclick="window.close()">Close</button>
<button id=shout onclick="console.error('it broke');setTimeout(()=>{throw new Error('boom')},0)">Shout</button>
<a id=hang href=/hang>hang</a><a id=dead href=/reset>dead</a><a id=next href=/saved?x=1>next</a>
<a id=file-link href=/report.csv>file</a><a id=broken-file href=/broken.csv>broken file</a>
<a id=elsewhere href=http://evil.test/>elsewhere</a>
<iframe id=inner src=/inner></iframe>
<div style="height:3000px"></div><p id=bottom>bottom</p>
"""
MOVES = """<script>let x = 0;
const move = () => { moving.style.left = (x = (x + 7) % 500) + 'px'; requestAnimationFrame(move) }
moving.style.position = 'relative'; move()</script>
"""
"""Only where it is needed: each second of such a page costs a processor a quarter of one."""
FIELDS = """<!doctype html><title>Fields</title>
<input id=text><textarea id=area></textarea><input id=secret type=password><input id=number type=number>
<input id=date type=date><input id=time type=time><input id=both type=datetime-local><input id=month type=month>
<input id=week type=week><input id=colour type=color><input id=range type=range min=0 max=10 step=2>
<div id=editable contenteditable=true><b>old</b></div><div role=textbox id=rich contenteditable=plaintext-only></div>
<input id=fixed readonly value=fixed><input id=vanishing oninput="this.remove()">
<p id=heard></p><script>document.addEventListener('input', e => heard.textContent += e.target.id + ' ')</script>
"""
WIDGETS = """<!doctype html><title>Widgets</title>
<style>#menu ul{display:none}#menu:hover ul{display:block}.zone{width:120px;height:60px;border:1px solid}
#list div{height:30px;width:120px;touch-action:none}#box{height:60px;width:120px;overflow:auto}</style>
<div id=menu>Menu<ul><li><button id=entry onclick="out.textContent='entry'">Entry</button></ul></div>
<p id=out>nothing</p><p class=zone id=first-zone draggable=true>Card</p><p class=zone id=target-zone>Here</p>
<div id=list><div id=one>One</div><div id=two>Two</div><div id=three>Three</div></div>
<div id=box><p id=tall style="height:900px">tall</p></div>
<label><input type=checkbox id=ticked checked> ticked</label><input type=checkbox id=locked checked disabled>
<select id=colour><option value=r>Red<option value=g>Green<option value=b disabled>Blue</select>
<select id=many multiple><option value=a>A<option value=b>B<option value=c>C</select><select id=empty></select>
<select id=crossed><option value=2>1<option value=1>2</select>
<input id=keys><div id=host></div><p class=zone>Other</p>
<script>
document.addEventListener('keydown', e => {
  out.textContent += ' ' + (e.ctrlKey ? 'Control+' : '') + (e.shiftKey ? 'Shift+' : '') + e.key });
const card = document.getElementById('first-zone'), zone = document.getElementById('target-zone');
card.addEventListener('dragstart', e => e.dataTransfer.setData('text/plain', 'card'));
zone.addEventListener('dragover', e => e.preventDefault());
zone.addEventListener('drop', e => { e.preventDefault();
  zone.textContent = 'dropped ' + e.dataTransfer.getData('text/plain') });
let held = null, moves = 0;
const list = document.getElementById('list');
list.addEventListener('pointerdown', e => { held = e.target; moves = 0; e.preventDefault() });
addEventListener('pointermove', e => { if (held && ++moves > 3) {
  const over = document.elementFromPoint(e.clientX, e.clientY);
  if (over && over !== held && over.parentElement === list) over.after(held) } });
addEventListener('pointerup', () => { held = null });
const root = document.getElementById('host').attachShadow({mode: 'open'});
root.innerHTML = '<input id=deep type=date><input id=deep-secret type=password><button id=deep-button>Deep</button>';
root.getElementById('deep-button').onclick = () => { out.textContent = 'deep' };
</script><div style="height:2000px"></div>
"""
WINDOWS = """<!doctype html><title>Windows</title><h1>Windows</h1>
<button id=popup onclick="window.open('/popup')">Popup</button>
<button id=later onclick="setTimeout(()=>window.open('/closer'),400)">Later</button>
<button id=closer onclick="window.open('/closer')">Closer</button>
<button id=missing onclick="window.open('/status/404')">Missing</button>
<button id=down onclick="window.open('/status/503?retry=1')">Down</button>
<button id=refused onclick="window.open('http://dead.test/')">Refused</button>
<button id=silent onclick="window.open('/hang')">Silent</button>
<button id=looping onclick="window.open('/loop')">Looping</button>
<button id=asking onclick="window.open('/asking')">Asking</button>
<form method=post action=/status/503 target=_blank><button id=posted>Post</button></form>
"""
FILES = """<!doctype html><title>Files</title><p id=out>nothing</p>
<input id=files type=file multiple style="display:none" onchange="out.textContent=[...this.files].map(f=>f.name)">
<input id=single type=file style="display:none" onchange="out.textContent=[...this.files].map(f=>f.name)">
<label id=label for=single>Choose</label><button id=many onclick="files.click()">Files</button>
<button id=one onclick="single.click()">File</button><input type=button id=pressed value=More onclick="files.click()">
<button id=none>Nothing</button>
<a id=blank href=/report.csv target=_blank>in a new page</a>
<button id=window onclick="window.open('/giving')">Window</button>
<a id=endless href=/endless.csv>endless</a>
"""
CAUSES = """<!doctype html><title>Causes</title><style>@keyframes shift { to { transform: translateX(40px) } }
.moving { animation: shift .3s infinite alternate }
#veil { position: fixed; left: 0; top: 0; width: 100%; height: 150px; background: rgb(200 0 0 / .3) }
#open { margin-top: 180px }
@media (prefers-reduced-motion: reduce) { #calm { animation: none } }</style>
<form onsubmit="event.preventDefault()"><button id=button>Button</button><input id=send type=submit value=Send>
<input id=box type=checkbox><input id=radio type=radio><input id=range type=range><input id=file type=file>
<input id=text></form><div id=veil></div>
<div id=open><button id=pulse class=moving>Pulse</button><input id=slide class=moving type=submit value=Slide>
<button id=off disabled>Off</button><input id=unticked type=checkbox disabled><input id=fixed readonly value=x>
<select id=list disabled><option>a</select><fieldset disabled><button id=within>Within</button></fieldset>
<a id=dead href=/saved style="pointer-events: none">Dead</a><button id=inert inert>Inert</button>
<button id=gone style="display: none">Gone</button><input id=unseen style="visibility: hidden">
<button id=aside style="position: absolute; left: -900px">Aside</button>
<a id=hanging href=/hang>Hanging</a>
<button id=later disabled onclick="this.textContent='clicked'">Later</button>
<button id=asks onclick="fetch('/hang')">Asks</button><button id=calm class=moving>Calm</button></div>"""
PAGES = {
    "/fields": FIELDS,
    "/causes": CAUSES,
    "/widgets": WIDGETS,
    "/windows": WINDOWS,
    "/files": FILES,
    "/reloading": "<title>Reloading</title><p id=x>x</p><script>setTimeout(()=>location.reload(),120)</script>",
    "/late": """<title>Late</title><script>setTimeout(() => document.body.innerHTML =
        '<select id=town><option>Paris<option selected>Lyon</select><p id=plain>told</p>', 400)</script>""",
    "/giving": "<title>Giving</title><script>setTimeout(()=>{location.href='/report.csv'},100)</script>",
    "/closer": "<title>Closer</title><button id=close onclick=\"opener.document.querySelector('h1').textContent='told';"
    'window.close()">Close</button>',
    "/asking": "<title>Asking</title><p id=said></p><script>said.textContent=prompt('name?', 'nobody')</script>",
    "/leaving": "<title>Leaving</title><input id=x><a id=go href=/saved>go</a>"
    "<script>onbeforeunload=e=>e.preventDefault()</script>",
    "/frames": "<title>Frames</title><button id=beside>Beside</button>"
    "<iframe id=outer src=/frames/middle width=800 height=500></iframe>",
    "/frames/middle": "<title>Middle</title><iframe class=twin src=/inner></iframe><iframe class=twin src=/inner>"
    "</iframe><iframe id=own src=/fields></iframe>"
    "<iframe id=foreign src=http://other.test/widgets width=700 height=400></iframe>",
    "/": FORM,
    "/moving": FORM + MOVES,
    "/inner": "<title>Inner</title><button id=in onclick=\"this.textContent='pressed'\">In</button>",
    "/sign-in": "<title>Welcome</title><p>Who are you?</p>",
    "/saved": "<title>Saved</title><p id=ok>saved</p>",
    "/led-on": "<title>Led on</title><script>setTimeout(()=>location.replace('/saved'),300)</script>",
    "/popup": "<title>Popup</title><p>popup</p>",
    "/loop": "<title>Loop</title><p id=x>x</p><script>setTimeout(()=>{while(true){}},50)</script>",
    "/parse-loop": "<title>Loop</title><script>while(true){}</script>",
    "/alerts": "<title>Alerts</title><button id=go onclick=\"while(true)alert('again')\">go</button>",
    "/tick": "<title>Tick</title><p id=n>0</p><script>let n=0;setInterval(()=>{document.getElementById('n')"
    ".textContent=++n},20)</script>",
    "/saving": "<title>Saving</title><p id=x>x</p><script>"
    "setInterval(()=>fetch('/api/save',{method:'POST',body:'x'}),20);addEventListener('pagehide',()=>"
    "navigator.sendBeacon('/api/save'))</script>",
    "/fonts": "<title>Fonts</title><p id=x>x</p><script>onload=()=>{const f=new FontFace('slow','url(/hang)');"
    "document.fonts.add(f);f.load();document.body.style.fontFamily='slow, serif'}</script>",
    "/toasts": """<title>Toasts</title><style>.off{display:none}</style><h1>Orders</h1><p id=clock></p>
        <p id=toggled class=off>Card declined</p><div id=host></div><button id=order>Order</button><script>
        const root = host.attachShadow({mode: 'open'}); let n = 0;
        setInterval(() => { clock.textContent = 'tick ' + ++n }, 50);
        order.onclick = () => {
          const made = document.createElement('div');
          made.textContent = 'Try another card';
          setTimeout(() => {
            document.body.append(made); root.innerHTML = '<b>Basket locked</b>'; toggled.className = '' }, 900);
          setTimeout(() => {
            made.remove(); root.innerHTML = ''; toggled.className = 'off';
            document.body.insertAdjacentHTML('beforeend', '<p id=done>done</p>') }, 2600);
        };</script>""",
    "/slow": "<title>Slow</title><p id=x>x</p><img src=/hang>",
    "/fetch": "<title>Fetch</title><p id=a></p>"
    "<script>fetch('/whoami').then(r=>r.text()).then(t=>a.textContent=t)</script>",
    "/emulated": """<title>Emulated</title><meta name=viewport content="width=device-width"><p id=out></p>
        <noscript><p id=without>no script</p></noscript><script>
        const asked = q => matchMedia(q).matches;
        const told = {language: navigator.language, languages: navigator.languages.join(), width: innerWidth,
          agent: navigator.userAgent, touch: navigator.maxTouchPoints > 0, ratio: devicePixelRatio,
          zone: Intl.DateTimeFormat().resolvedOptions().timeZone, dark: asked('(prefers-color-scheme: dark)'),
          calm: asked('(prefers-reduced-motion: reduce)'), online: navigator.onLine};
        const show = () => { out.textContent = JSON.stringify(told) };
        show();
        navigator.geolocation.getCurrentPosition(
          p => { told.place = [p.coords.latitude, p.coords.longitude, p.coords.accuracy]; show() },
          () => { told.place = 'denied'; show() });
        navigator.permissions.query({name: 'notifications'}).then(p => { told.notifications = p.state; show() });
        navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.getRegistrations()).then(
          found => { told.workers = found.length; show() });</script>""",
    "/orders": """<title>Orders</title><p id=out></p><button id=order>Order</button><button id=later>Later</button>
        <button id=elsewhere>Elsewhere</button><button id=both>Both</button><button id=window>Window</button>
        <form action=/paid method=post><input name=card value=1234><button id=pay>Pay</button></form><script>
        const send = async (url, sent) => {
          try {
            const answer = await fetch(url, sent && {method: 'POST', body: JSON.stringify(sent)});
            out.textContent += `${answer.status} ${await answer.text()};`;
          } catch (error) { out.textContent += 'failed;' } };
        const pen = {items: [{id: 'pen', count: 2}], total: 3.5};
        order.onclick = () => send('/api/orders', pen);
        later.onclick = () => setTimeout(() => send('/api/orders', pen), 300);
        elsewhere.onclick = () => send('http://evil.test/api/orders?x=1');
        document.getElementById('window').onclick = () => open('/popup');
        both.onclick = async () => { await send('/api/orders', pen); await send('/api/orders', pen) };</script>""",
    "/forget": "<title>Forget</title><script>localStorage.setItem('kept','yes')</script><p id=x>x</p>",
}
SHOWN = ("host", "cookie", "user-agent", "content-type", "authorization", "x-who")
"""Headers that /whoami tells."""
MISBEHAVING = (
    *("/hang", "/reset", "/late-reset", "/empty", "/truncated", "/garbage", "/broken.csv", "/endless.csv"),
    *("/bad-chunk", "/cut-chunk", "/half", "/to-hang", "/half-headers", "/parts"),
)
"""Paths whose answers are no whole ones."""
CHUNKS = {"/bad-chunk": b"5\r\n<p>ab\r\nno number\r\nrest\r\n", "/cut-chunk": b"5\r\n<p>ab\r\n50\r\ncut"}
STOPS = {
    "/half": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p id=x>half",
    "/to-hang": b"HTTP/1.1 302 X\r\nLocation: /hang\r\nContent-Length: 0\r\n\r\n",
    "/half-headers": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConte",
}
"""What is sent before the server falls silent."""
Answer = tuple[int, Mapping[str, str], bytes]


class Site:
    """One asyncio server. `hits` counts requests by path."""

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if first == b"\x16":  # a TLS handshake
            writer.write(b"HTTP/1.1 400 X\r\n\r\n")
            return False
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.splitlines()[0].split(" ", 2)
        pairs = (line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = urlsplit(target).path
        self.hits[path] = self.hits.get(path, 0) + 1
        if path in MISBEHAVING:
            await self._misbehave(path, writer)
            return False
        status, extra, content = answer(method, target, headers, body)
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
        lines += [f"{name.split('#')[0]}: {value}" for name, value in extra.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if method == "HEAD" else content))
        await writer.drain()
        return True

    async def _misbehave(self, path: str, writer: asyncio.StreamWriter) -> None:
        if path == "/hang":
            await asyncio.sleep(3600)
        if path == "/late-reset":
            await asyncio.sleep(1.0)
        if path in ("/reset", "/late-reset"):
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if path == "/truncated":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p>half")
        if path == "/broken.csv":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: 500000\r\n")
            writer.write(b"Content-Disposition: attachment; filename=broken.csv\r\n\r\n" + b"x" * 100_000)
        if path == "/endless.csv":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: 500000\r\n")
            writer.write(b"Content-Disposition: attachment; filename=endless.csv\r\n\r\n" + b"x" * 100_000)
            await writer.drain()
            await asyncio.sleep(3600)
        if path in CHUNKS:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(CHUNKS[path])
        if path == "/parts":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p id=x>first</p>")
            await writer.drain()
            await asyncio.sleep(0.4)
            writer.write(b"<p id=rest>rest</p>")
        if path in STOPS:
            writer.write(STOPS[path])
            await writer.drain()
            await asyncio.sleep(3600)
        if path == "/garbage":
            writer.write(b"\x00\x01\x02 not http\r\n\r\n")
        await writer.drain()


def answer(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """What a well-behaved path answers."""
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    html = {"Content-Type": "text/html; charset=utf-8"}
    if parts.path in PAGES:
        return 200, html, PAGES[parts.path].encode()
    if parts.path.startswith("/status/"):
        extra = html | ({"Retry-After": query["retry"]} if "retry" in query else {})
        return int(parts.path.split("/")[2]), extra, b"" if "empty" in query else b"<p>status</p>"
    if parts.path == "/redirect":
        return int(query.get("status", 302)), {"Location": query["to"]}, b""
    if parts.path == "/circle":
        return 302, {"Location": "/circle"}, b""
    if parts.path == "/login":
        return (
            200,
            html | {"Set-Cookie": "sid=s3cret; Path=/; HttpOnly", "Set-Cookie#2": "b=2; Max-Age=60"},
            b"<p>in</p>",
        )
    if parts.path == "/logout":
        return 200, html | {"Set-Cookie": "sid=; Path=/; Max-Age=0"}, b"<p>out</p>"
    if parts.path == "/report.csv":
        return 200, {"Content-Type": "text/csv", "Content-Disposition": 'attachment; filename="report.csv"'}, b"a,b\n"
    if parts.path == "/worker.js":
        return 200, {"Content-Type": "text/javascript"}, b"// does nothing"
    if parts.path == "/basic":
        known = headers.get("authorization") == "Basic YW5uOnNlY3JldA=="  # ann:secret
        return (200, html, b"<p id=in>in</p>") if known else (401, html | {"WWW-Authenticate": 'Basic realm="x"'}, b"")
    if parts.path == "/whoami":
        seen = {name: headers.get(name) for name in SHOWN}
        content = json.dumps({"method": method, "body": body.decode(), **seen}).encode()
        return 200, {"Content-Type": "application/json"}, content
    return 404, html, b"<p>no such page</p>"
