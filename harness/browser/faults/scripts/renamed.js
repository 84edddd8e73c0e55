// Renames ids, classes and the names of fields. The page's own scripts, styles and forms go on working: what they look
// for by an old name, they find; what they send bears it. Only whoever looks from outside sees the new names.
(settings, met) => {
  const MARK = Symbol.for('harness.renamed');
  if (document[MARK]) return undefined;
  document[MARK] = true;
  const FIELDS = ['input', 'select', 'textarea', 'button', 'output', 'fieldset'];
  const REFERENCES = ['for', 'form', 'list', 'headers', 'popovertarget', 'commandfor', 'aria-labelledby',
    'aria-describedby', 'aria-controls', 'aria-owns', 'aria-details', 'aria-activedescendant', 'aria-errormessage'];
  const REFERRING = [...REFERENCES.map(name => `[${name}]`), 'a[href^="#"]'].join();
  const renamed = {id: new Map(), class: new Map(), name: new Map()};
  const old = new Map();
  const touched = new Set();
  let grown = false;

  const shuffled = text => {
    let hash = 2166136261;
    for (const sign of settings.seed + text) hash = Math.imul(hash ^ sign.codePointAt(0), 16777619);
    return 'x' + (hash >>> 0).toString(36);
  };
  const rename = (kind, text) => {
    if (old.has(text)) return text;
    const given = shuffled(text);
    grown ||= !renamed[kind].has(text);
    renamed[kind].set(text, given);
    old.set(given, text);
    return given;
  };
  const change = (e, attribute, turn) => {
    const before = e.getAttribute(attribute);
    const after = before && before.split(/\s+/).map(turn).join(' ');
    if (before === after) return false;
    e.setAttribute(attribute, after);
    touched.add(e);
    return true;
  };

  const wider = selector => String(selector).replace(
    /\[(id|name)=(["']?)([\w-]+)\2\]|"[^"]*"|'[^']*'|([#.])(-?[A-Za-z_][\w-]*)/g,
    (all, attribute, _, value, sign, text) => {
      const kind = attribute || (sign === '#' ? 'id' : 'class');
      const given = renamed[kind].get(value || text);
      if (!given) return all;
      return attribute ? `:is(${all}, [${attribute}="${given}"])` : `:is(${all}, ${sign}${given})`;
    });
  const patches = [];
  const byPage = () => /:\/\//.test(new Error().stack); // scripts from outside have no address
  const patch = (holders, name, made) => {
    for (const {prototype} of holders) {
      const native = prototype[name], wide = made(native);
      prototype[name] = function (...given) { return (byPage() ? wide : native).apply(this, given); };
      patches.push(() => { prototype[name] = native; });
    }
  };
  const bySelector = native => function (selector) { return native.call(this, wider(selector)); };
  for (const name of ['querySelector', 'querySelectorAll']) patch([Document, DocumentFragment, Element], name, bySelector);
  for (const name of ['matches', 'closest']) patch([Element], name, bySelector);
  patch([Document, DocumentFragment], 'getElementById', native => function (id) {
    return native.call(this, id) || native.call(this, renamed.id.get(String(id)) ?? '');
  });
  patch([Document, Element], 'getElementsByClassName', native => function (names) {
    const wanted = String(names).split(/\s+/).filter(Boolean);
    if (!wanted.some(each => renamed.class.has(each))) return native.call(this, names);
    return this.querySelectorAll(wanted.map(each => '.' + CSS.escape(each)).join(''));
  });
  patch([Document], 'getElementsByName', () => function (name) { return this.querySelectorAll(`[name="${name}"]`); });
  const given = name => renamed.class.get(String(name)) ?? name;
  const contains = DOMTokenList.prototype.contains;
  patch([DOMTokenList], 'contains', native => function (name) {
    return native.call(this, name) || native.call(this, given(name));
  });
  patch([DOMTokenList], 'remove', native => function (...names) { native.call(this, ...names, ...names.map(given)); });
  patch([DOMTokenList], 'toggle', native => function (name, ...force) {
    return native.call(this, contains.call(this, given(name)) ? given(name) : name, ...force);
  });
  const send = ({formData}) => {
    const entries = [...formData];
    for (const [name] of entries) formData.delete(name);
    for (const [name, value] of entries) formData.append(old.get(name) ?? name, value);
  };
  addEventListener('formdata', send, true);

  const asBefore = (holder, name, find) => {
    if (!holder || name in holder) return;
    const set = value => Object.defineProperty(holder, name, {value, writable: true, configurable: true});
    Object.defineProperty(holder, name, {configurable: true, get: find, set});
    patches.push(() => { delete holder[name]; });
  };
  const strike = e => {
    if (e.namespaceURI !== 'http://www.w3.org/1999/xhtml') return;
    const [id, name] = [e.getAttribute('id'), e.getAttribute('name')];
    if (change(e, 'id', each => rename('id', each))) {
      met();
      asBefore(window, id, () => document.getElementById(id));
    }
    if (change(e, 'class', each => rename('class', each))) met();
    if (FIELDS.includes(e.localName) && change(e, 'name', each => rename('name', each))) {
      met();
      for (const holder of [e.form, e.form?.elements]) asBefore(holder, name, () => e.form.elements.namedItem(e.name));
    }
  };

  const selectors = new WeakMap();
  const restyle = rules => {
    for (const rule of rules) {
      if (rule.selectorText) {
        if (!selectors.has(rule)) selectors.set(rule, rule.selectorText);
        const wanted = wider(selectors.get(rule));
        if (wanted !== selectors.get(rule)) rule.selectorText = wanted;
      }
      if (rule.cssRules) restyle(rule.cssRules);
    }
  };
  const restyleAll = () => {
    for (const sheet of [...document.styleSheets, ...document.adoptedStyleSheets]) {
      try {
        restyle(sheet.cssRules);
      } catch { /* of another origin: it cannot be read */ }
    }
  };
  const onload = ({target}) => { if (target.localName === 'link') restyleAll(); };
  addEventListener('load', onload, true);
  let sheets = 0;
  const stop = watch(settings.selector, strike, root => {
    for (const e of root.querySelectorAll(REFERRING)) {
      for (const name of REFERENCES) change(e, name, each => renamed.id.get(each) ?? each);
      change(e, 'href', each => each[0] === '#' ? '#' + (renamed.id.get(each.slice(1)) ?? each.slice(1)) : each);
    }
    if (grown || sheets !== document.styleSheets.length) restyleAll();
    sheets = document.styleSheets.length;
    grown = false;
  });

  return () => {
    stop();
    removeEventListener('formdata', send, true);
    removeEventListener('load', onload, true);
    for (const undo of patches.reverse()) undo();
    for (const e of touched) {
      for (const name of ['id', 'class', 'name', ...REFERENCES]) change(e, name, each => old.get(each) ?? each);
      change(e, 'href', each => each[0] === '#' ? '#' + (old.get(each.slice(1)) ?? each.slice(1)) : each);
    }
    document[MARK] = false;
  };
}
