// Disables elements, however often the page's scripts enable them again. What is no control is made inert.
(settings, met) => {
  const struck = new Map();
  const attribute = (e, name, value) => value === null ? e.removeAttribute(name) : e.setAttribute(name, value);
  const stop = watch(settings.selector, e => {
    const control = 'disabled' in e;
    if (control ? e.disabled : e.inert) return;
    if (!struck.has(e)) struck.set(e, e.getAttribute('aria-disabled'));
    if (control) {
      e.disabled = true;
    } else {
      e.setAttribute('aria-disabled', 'true');
      e.inert = true;
    }
    met();
  });
  return () => {
    stop();
    for (const [e, said] of struck) {
      if ('disabled' in e) {
        e.disabled = false;
      } else {
        attribute(e, 'aria-disabled', said);
        e.inert = false;
      }
    }
  };
}
