"""A page that has replaced whatever its scripts can reach."""

from __future__ import annotations

SCRIPT = """
<script>
const boom = () => { throw new Error('poisoned') };
for (const [proto, names] of [[Array.prototype, ['map','filter','some','slice','push','forEach','includes','find',
  'join','reverse','pop','concat','splice']],
  [String.prototype, ['trim','replace','slice','toLowerCase','split','startsWith']],
  [Element.prototype, ['getAttribute','getBoundingClientRect','checkVisibility','matches','closest',
  'querySelectorAll','querySelector']],
  [Document.prototype, ['querySelectorAll','querySelector','evaluate','createElement']],
  [Map.prototype, ['get','set','has']], [Set.prototype, ['add','has']], [WeakMap.prototype,['get','set','has']],
  [Object, ['keys','entries','getPrototypeOf','fromEntries','assign']],
  [JSON, ['stringify','parse']],
  [Function.prototype, ['call','apply','bind']],
  [Promise.prototype,['then']],
  [Array, ['isArray','from']],
  [performance,['now']]])
  for (const n of names) { try { proto[n] = boom } catch (e) {} }
Array.prototype[Symbol.iterator] = boom;
for (const n of ['tagName','value','innerText','textContent','isConnected','id','v','o','a','k','s','length0',
  'title']) try { Object.defineProperty(Object.prototype, n, {get() { return 'lie' },
   set() { throw new Error('poisoned') }, configurable: true}) } catch (e) {}
Object.defineProperty(Element.prototype, 'outerHTML', {get() { return 'lie' }});
Object.defineProperty(HTMLElement.prototype, 'innerText', {get() { return 'lie' }});
Object.defineProperty(Node.prototype, 'textContent', {get() { return 'lie' }, set(){}});
Object.defineProperty(HTMLInputElement.prototype, 'value', {get() { return 'lie' }, set(){}});
Object.defineProperty(Element.prototype, 'tagName', {get() { return 'LIE' }});
Object.defineProperty(Document.prototype, 'title', {get() { return 'lie' }});
window.Promise = boom; window.Map = boom; window.Set = boom; window.eval = boom;window.JSON=undefined;
   window.Symbol=undefined;
</script>
"""
PAGE = (
    "<!doctype html><title>True</title><p id=x data-k=kept>truth</p><input id=i value=kept><input type=file id=file>"
    "<select id=s><option value=a>A<option value=b>B</select><form id=f action=/saved><button id=b>go</button></form>"
    "<p id=hid style='display:none'>hidden</p>" + SCRIPT
)
FIELDS = (
    "<!doctype html><title>Poisoned</title><body style='height:4000px'><input id=i><input type=checkbox id=c>"
    "<select id=s><option value=a>A<option value=b>B</select><textarea id=t></textarea><input type=file id=file>"
    "<script>if (!sessionStorage.getItem('kept')) sessionStorage.setItem('kept', String(Math.random()))</script>"
    + SCRIPT
)
"""Fields of several kinds, and a sessionStorage whose one value is another in each new session."""
