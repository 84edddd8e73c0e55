// Calls `strike(element)` for every element that matches, in open shadow roots too, now and after each change of the
// page; then `after(root)`. Both may be called again for the same. Returns what ends it.
(selector, strike, after) => {
  const observers = [];
  const look = root => {
    const sweep = () => {
      for (const e of root.querySelectorAll(selector)) strike(e);
      after?.(root);
      observer.takeRecords(); // what the sweep has changed itself
    };
    const observer = new MutationObserver(sweep);
    sweep(); // first: a selector that is none ends all
    observers.push(observer);
    observer.observe(root, {childList: true, subtree: true, attributes: true});
    for (const e of root.querySelectorAll('*')) if (e.shadowRoot) look(e.shadowRoot);
  };
  const attach = Element.prototype.attachShadow;
  const attached = function (options) {
    const root = attach.call(this, options);
    if (options.mode === 'open') look(root);
    return root;
  };
  Element.prototype.attachShadow = attached;
  look(document);
  return () => {
    if (Element.prototype.attachShadow === attached) Element.prototype.attachShadow = attach;
    for (const observer of observers) observer.disconnect();
  };
}
