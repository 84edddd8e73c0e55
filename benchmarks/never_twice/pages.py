"""How a page sends: the first table of the campaign. Each kind is one act that must have its effect at most once.

In a script, `u()` is a new address for one order, `post()` sends one, `D` is a delay in milliseconds, and `B` is the
button.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

BUTTON: Final = "<button id=b>buy</button>"
CLICK: Final[Mapping[str, Any]] = {"act": "click", "selector": "#b"}
COUNTED_GET: Final = "&get=1"
"""Marks an address whose GET has the effect, too."""


class Kind(NamedTuple):
    """One way in which a page sends."""

    script: str
    body: str = BUTTON
    act: Mapping[str, Any] = CLICK
    before: tuple[Mapping[str, Any], ...] = ()
    """Steps between the opening of the page and the act."""
    late: bool = False
    """Whether the order may leave after the act has ended, or not at all when the page ends before."""
    answered: bool = True
    """Whether the answer is that of an ordinary request; not for messages and beacons."""
    declared: bool | None = None
    """Whether its file must declare the write (True: a GET that orders), cannot need to (False), or may (None)."""
    effect: bool = True
    """Whether the act has an effect at all."""
    leaving: bool = False
    """Whether it sends when the page is left or hidden: what fails later is then mostly another page."""


def _on_click(script: str, **more: Any) -> Kind:
    return Kind(f"B.onclick=()=>{{{script}}}", **more)


_WORKER = "new Worker('/worker.js')"
_OTHER = ({"act": "click", "selector": "#opener"},)
_WITH_OPENER = (
    "<button id=b>buy</button><button id=opener onclick=\"window.open('/listener?'+Q,'listens')\">open</button>"
)
_FORM = "<form id=f method=post><input id=t name=t value=x><button id=b>buy</button></form>"
_BUSY = "const T=Date.now();while(Date.now()-T<2500);"
_CONFIRM = ({"act": "dialog", "value": "accept", "optional": True},)
_SUBMITS = "F.onsubmit=()=>{F.action=u()}"

KINDS: Final[Mapping[str, Kind]] = {
    "fetch": _on_click("post()"),
    "xhr": _on_click("const x=new XMLHttpRequest();x.open('POST',u());x.onload=()=>x.status<300&&done();x.send('x')"),
    "xhr-sync": _on_click("const x=new XMLHttpRequest();x.open('POST',u(),false);try{x.send('x');done()}catch(e){}"),
    "put": _on_click("post({method:'PUT'})"),
    "patch": _on_click("post({method:'PATCH'})"),
    "delete": _on_click("post({method:'DELETE',body:undefined})"),
    "multipart": _on_click("const d=new FormData();d.append('f',new Blob(['x'.repeat(9e4)]),'f.txt');post({body:d})"),
    "cross-origin": _on_click("post({mode:'no-cors'},OTHER+u())"),
    "microtask": _on_click("queueMicrotask(()=>post())"),
    "animation-frame": _on_click("requestAnimationFrame(()=>requestAnimationFrame(()=>post()))"),
    "idle": _on_click("requestIdleCallback(()=>post())", late=True),
    "transition": _on_click(
        "B.style.transition='opacity .2s';B.ontransitionend=()=>post();B.style.opacity=.5", late=True
    ),
    "timer": _on_click("setTimeout(post,D)", late=True),
    "promise-chain": _on_click(
        "fetch('/plain').then(r=>r.text()).then(()=>new Promise(r=>setTimeout(r,D/3))).then(()=>post())", late=True
    ),
    "slow-token": _on_click("fetch('/slow?ms='+D).then(()=>post())", late=True),
    "page-retries": _on_click(
        "const a=u();post({},a).catch(()=>0).then(()=>setTimeout(()=>post({},a+'&again=1'),300))"
    ),
    "double-handlers": Kind(
        "let a;B.onclick=()=>{a=u();post({},a)};B.addEventListener('click',()=>post({},a+'&again=1'))"
    ),
    "optimistic": _on_click("done();setTimeout(post,D)", late=True),
    "debounce-click": _on_click("clearTimeout(window.t);window.t=setTimeout(post,400)", late=True),
    "keepalive": _on_click("post({keepalive:true})"),
    "beacon": _on_click("navigator.sendBeacon(u(),'x')", answered=False),
    "ping": Kind("B.onclick=()=>{B.ping=u()}", "<a id=b href='#there'>buy</a>", answered=False),
    "fetch-later": _on_click(
        "window.fetchLater?fetchLater(u(),{method:'POST',activateAfter:D}):post()", late=True, answered=False
    ),
    "pagehide-beacon": Kind(
        "B.onclick=()=>{window.on=1};addEventListener('pagehide',()=>window.on&&navigator.sendBeacon(u(),'x'))",
        late=True,
        answered=False,
        leaving=True,
    ),
    "pagehide-keepalive": Kind(
        "B.onclick=()=>{window.on=1};addEventListener('pagehide',()=>window.on&&post({keepalive:true}))",
        late=True,
        answered=False,
        leaving=True,
    ),
    "hidden-beacon": Kind(
        "B.onclick=()=>{window.on=1};"
        "document.addEventListener('visibilitychange',()=>window.on&&navigator.sendBeacon(u(),'x'))",
        late=True,
        answered=False,
        leaving=True,
    ),
    "form": Kind(_SUBMITS, _FORM),
    "form-submitted": Kind(_SUBMITS, _FORM, {"act": "submit", "selector": "#f"}, declared=False),
    "form-by-script": _on_click(
        "F.action=u();F.submit()", body=f"{BUTTON}<form id=f method=post><input name=t></form>"
    ),
    "form-requested": Kind(f"{_SUBMITS};B.onclick=()=>F.requestSubmit()", f"{BUTTON}<form id=f method=post></form>"),
    "formaction": Kind("B.onclick=()=>{B.formAction=u()}", _FORM),
    "enter": Kind(_SUBMITS, _FORM, {"act": "press", "selector": "#t", "value": "Enter"}),
    "form-in-frame": Kind(_SUBMITS + ";F.target='i'", _FORM + "<iframe name=i></iframe>"),
    "form-in-popup": Kind(_SUBMITS + ";F.target='_blank'", _FORM),
    "key": Kind(
        "document.addEventListener('keydown',e=>e.key=='b'&&post())",
        act={"act": "press", "selector": "#b", "value": "b"},
    ),
    "check": Kind("B.onchange=()=>post()", "<input type=checkbox id=b>", {"act": "check", "selector": "#b"}),
    "select": Kind(
        "B.onchange=()=>post()",
        "<select id=b><option value=1>1<option value=2>2</select>",
        {"act": "select", "selector": "#b", "value": "2"},
    ),
    "upload": Kind(
        "B.onchange=()=>{const d=new FormData();d.append('f',B.files[0]);post({body:d})}",
        "<input type=file id=b>",
        {"act": "upload", "selector": "#b", "value": "file.txt"},
    ),
    "drag": Kind(
        "document.querySelector('#to').ondrop=e=>{e.preventDefault();post()};"
        "document.querySelector('#to').ondragover=e=>e.preventDefault()",
        "<div id=b draggable=true style='width:60px'>x</div><div id=to style='width:90px;height:60px'>to</div>",
        {"act": "drag", "selector": "#b", "value": "#to"},
    ),
    "confirm": _on_click("if(confirm('sure?'))post()", before=_CONFIRM),
    "download": Kind(
        f"{_SUBMITS};",
        _FORM.replace("method=post", "method=post data-more='&attach=1'"),
        {"act": "download", "selector": "#b"},
    ),
    "hung-after": _on_click(f"post();{_BUSY}"),
    "hung-before": _on_click(f"{_BUSY}post()", late=True),
    "hung-later": _on_click(f"post();setTimeout(()=>{{{_BUSY}}},50)"),
    "closes": _on_click("post({keepalive:true});window.close()"),
    "navigates": _on_click("post({keepalive:true});location='/thanks?'+Q"),
    "navigates-plain": _on_click("post();location='/thanks?'+Q", late=True),
    "worker": Kind(f"const w={_WORKER};B.onclick=()=>w.postMessage(abs())", late=True),
    "worker-late": Kind(f"const w={_WORKER};B.onclick=()=>setTimeout(()=>w.postMessage(abs()),D)", late=True),
    "worker-nested": Kind("const w=new Worker('/nested.js');B.onclick=()=>w.postMessage(abs())", late=True),
    "worker-of-blob": Kind(
        "const w=new Worker(URL.createObjectURL(new Blob([`onmessage=m=>fetch(m.data,{method:'POST',body:'x'})`])));"
        "B.onclick=()=>w.postMessage(abs())",
        late=True,
    ),
    "shared-worker": Kind(
        "const w=new SharedWorker('/shared.js').port;w.start();B.onclick=()=>w.postMessage(abs())", late=True
    ),
    "shared-worker-late": Kind(
        "const w=new SharedWorker('/shared.js').port;w.start();B.onclick=()=>w.postMessage({late:D,url:abs()})",
        late=True,
    ),
    "service-worker": Kind(
        "navigator.serviceWorker.register('/sw.js');"
        "B.onclick=()=>navigator.serviceWorker.ready.then(r=>r.active.postMessage(abs()))",
        late=True,
    ),
    "service-worker-fetch": Kind(
        "navigator.serviceWorker.register('/sw.js');B.onclick=()=>navigator.serviceWorker.ready.then(()=>post())",
        late=True,
    ),
    "service-worker-late": Kind(
        "navigator.serviceWorker.register('/sw.js');"
        "B.onclick=()=>navigator.serviceWorker.ready.then(r=>r.active.postMessage({late:D,url:abs()}))",
        late=True,
    ),
    "websocket": Kind("const s=new WebSocket(WS);B.onclick=()=>s.send(u())", answered=False, late=True),
    "websocket-late": Kind(
        "B.onclick=()=>{const s=new WebSocket(WS);s.onopen=()=>s.send(u())}", answered=False, late=True
    ),
    "websocket-in-worker": Kind(
        f"const w={_WORKER};B.onclick=()=>w.postMessage({{ws:WS,url:u()}})", answered=False, late=True
    ),
    "broadcast": Kind(
        "const c=new BroadcastChannel('c'+T);B.onclick=()=>c.postMessage(u())", _WITH_OPENER, before=_OTHER, late=True
    ),
    "storage-event": Kind("B.onclick=()=>localStorage.setItem('o'+T,u())", _WITH_OPENER, before=_OTHER, late=True),
    "popup": _on_click("window.open('/auto?'+Q+'&to='+encodeURIComponent(u()))", late=True),
    "frame": Kind("B2.src='/inner?'+Q", "<iframe id=i></iframe>", {"act": "click", "selector": "#b", "frame": "#i"}),
    "frame-cross-origin": Kind(
        "B2.src=OTHER+'/inner?'+Q", "<iframe id=i></iframe>", {"act": "click", "selector": "#b", "frame": "#i"}
    ),
    "frame-told": Kind(
        "B2.src=OTHER+'/listener?'+Q;B.onclick=()=>B2.contentWindow.postMessage(u(),'*')",
        BUTTON + "<iframe id=i></iframe>",
        late=True,
    ),
    "link-get": Kind("B.href=u()+'&get=1'", "<a id=b>buy</a>", declared=True),
    "form-get": Kind(
        "const n=u().split('?')[1];F.action='/order';n.split('&').forEach(p=>{const i=document.createElement('input');"
        "i.type='hidden';[i.name,i.value]=p.split('=');F.append(i)})",
        "<form id=f><input type=hidden name=get value=1><button id=b>buy</button></form>",
        declared=True,
    ),
    "open-get": Kind("", act={"act": "open", "url": "{site}/order?{query}&n=open&get=1"}, declared=True),
    "api": Kind("", act={"act": "api", "method": "POST", "url": "{site}/order?{query}&n=api"}, declared=False),
    "image": _on_click("new Image().src=u()", effect=False),
    "nothing": _on_click("done()", effect=False),
}
"""Name -> how the page sends."""

PAGE: Final = """<!doctype html><title>shop</title><body>{body}<p id=o></p><p id=a>a</p>{extra}
<script>const T={trial!r},Q={query!r},D={delay},OTHER={other!r},WS={ws!r};
const $=s=>document.querySelector(s),B=$('#b'),F=$('#f'),B2=$('#i');
const u=()=>'/order?'+Q+'&n='+Math.random().toString(36).slice(2)+((F&&F.dataset.more)||'');
const abs=()=>location.origin+u();
const done=()=>{{$('#o').innerHTML='<b id=done>ordered</b>'}};
const post=(o={{}},a)=>fetch(a||u(),{{method:'POST',body:'x',...o}}).then(r=>r.ok?done():0);
{script}</script>"""
"""The page: `#done` comes when the site has confirmed; `#a` is always there."""
