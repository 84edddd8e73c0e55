"""Pages on which something goes wrong, for the table of failures. Whoever imports this has them on the site."""

from __future__ import annotations

from tests.browser.site import PAGES
from tests.browser.stage import SHOP

ELEMENTS = """<!doctype html><title>Elements</title>
<style>#moving{position:relative}#under{position:relative}#overlay{position:absolute;inset:0;background:#ccc}</style>
<p id=text>hello</p><p class=dup>one</p><p class=dup>two</p><button class=twin>A</button><button class=twin>B</button>
<input class=field><input class=field><input type=checkbox class=box><input type=checkbox class=box>
<select class=list><option>a</select><select class=list><option>a</select>
<input type=file class=file><input type=file class=file><form class=form><input></form><form class=form><input></form>
<div id=under><button id=covered>Under</button><div id=overlay class="modal bg">overlay</div></div>
<button id=disabled disabled>No</button><fieldset disabled><button id=inside>In</button></fieldset>
<button id=aria aria-disabled=true>No</button><input id=off disabled><input id=fixed readonly value=x>
<select id=off-list disabled><option>a</select><input type=checkbox id=off-box disabled>
<button id=hidden style="display:none">h</button><input id=hidden-field style="visibility:hidden">
<button id=zero style="width:0;height:0;padding:0;border:0;overflow:hidden"></button>
<button id=away style="position:fixed;left:-500px;top:-500px">away</button><button id=moving>moving</button>
<select id=colour><option value=r>Red<option value=g>Green<option value=b disabled>Blue</select>
<div id=div>div</div><input id=file type=file><input type=radio id=radio checked><button id=idle>idle</button>
"""
# The script moves the button in each frame: with an animation, two frames of a busy machine may show the same place.
MOVES = """<script>let x = 0;
const move = () => { moving.style.left = (x = (x + 7) % 400) + 'px'; requestAnimationFrame(move) }
move()</script>"""
RENDERED = """<!doctype html><title>Rendered</title><div id=home></div>
<script>setInterval(() => { home.innerHTML = '<button id=again>again</button>' }, 1)</script>"""
FRAMES = """<!doctype html><title>Frames</title><p id=text>hello</p><iframe id=inner src=/inner></iframe>
<iframe id=twin-a class=twin src=/inner></iframe><iframe id=twin-b class=twin src=/inner></iframe>
<button id=remove onclick="document.getElementById('inner').remove()">Remove</button>
<iframe id=coming-and-going src=/inner></iframe>
<iframe id=covered srcdoc="<div style='position:relative'><button id=under>Under</button>
<div id=veil style='position:absolute;inset:0'></div></div>"></iframe>"""
DIALOGS = """<!doctype html><title>Dialogs</title><p id=out>nothing</p>
<button id=alert onclick="while(true)alert('again')">Alert</button>
<button id=confirm onclick="while(!confirm('sure?')||true);">Confirm</button>
<button id=prompt onclick="while(prompt('who?')!==0);">Prompt</button>
<button id=soon onclick="setTimeout(()=>{while(true)alert('again')},150)">Soon</button>
<input id=field>"""
PROCESSES = """<!doctype html><title>Processes</title><p id=text>hello</p><input id=field><button id=idle>idle</button>
<button id=loop onclick="while(true){}">Loop</button>
<button id=later onclick="setTimeout(()=>{while(true){}},700)">Later</button>
<button id=hoard onclick="const a=[];while(true)a.push(new Array(1e6).fill(a.length))">Hoard</button>
<button id=slow style="position:relative;animation:m .2317s infinite linear alternate">Slow</button>
<style>@keyframes m{from{left:0}to{left:400px}}</style>
<a id=silent href=/hang>silent</a><a id=parse href=/table/parse>parse</a><a id=spinning href=/table/spinning>spin</a>
<a id=spare href=/saved>spare</a>"""
SUBMITTING = """<!doctype html><title>Submitting</title>
<form id=form onsubmit="while(true){}"><input name=a></form>
<form id=silent method=post action=/hang><input name=b></form><input id=leaving>"""
TROUBLED = {
    "/table/elements": ELEMENTS,
    "/table/moving": ELEMENTS + MOVES,
    "/table/rendered": RENDERED,
    "/table/frames": FRAMES,
    "/table/dialogs": DIALOGS,
    "/table/processes": PROCESSES,
    "/table/submitting": SUBMITTING,
    "/table/restless": "<title>Restless</title><p id=n>0</p><script>setTimeout(() => location.reload(), 80)</script>",
    "/table/alerts-on-load": "<title>Alert</title><script>while(true)alert('welcome')</script>",
    "/table/parse": "<title>Loop</title><script>while(true){}</script>",
    "/table/spinning": "<title>Loop</title><p id=x>x</p><script>setTimeout(()=>{while(true){}},50)</script>",
    "/table/heavy": "<title>Heavy</title><p id=x>x</p>"
    "<script>setInterval(()=>{const t=performance.now();while(performance.now()-t<200);},220)</script>",
}
"""Path -> page."""

PAGES.update(TROUBLED)


def at(path: str) -> dict[str, str]:
    """The step that opens one of them."""
    return {"act": "open", "url": f"http://{SHOP}/table/{path}"}
