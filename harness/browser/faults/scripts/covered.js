// Lays a cover over elements, and keeps it there. A click that comes before the cover has followed does not hit either.
(settings, met) => {
  const covers = new Map();
  const own = new WeakSet();
  const STYLE = 'position: absolute; left: 0px; top: 0px; margin: 0; z-index: 2147483647; background: rgb(90 90 90 / .6)';
  const stop = watch(settings.selector, e => {
    if (covers.has(e) || own.has(e)) return;
    const cover = document.createElement('div');
    own.add(cover);
    cover.dataset.fault = 'covered';
    cover.style.cssText = STYLE;
    covers.set(e, [cover, e.style.getPropertyValue('pointer-events'), e.style.getPropertyPriority('pointer-events')]);
    e.style.setProperty('pointer-events', 'none', 'important');
    (e.closest('dialog') || document.documentElement).append(cover);
    place(e, cover);
    met();
  });
  function place(e, cover) {
    const wanted = e.getBoundingClientRect();
    cover.style.width = wanted.width + 'px';
    cover.style.height = wanted.height + 'px';
    const now = cover.getBoundingClientRect();
    cover.style.left = parseFloat(cover.style.left) + wanted.left - now.left + 'px';
    cover.style.top = parseFloat(cover.style.top) + wanted.top - now.top + 'px';
  }
  function uncover(e, [cover, value, priority]) {
    covers.delete(e);
    cover.remove();
    e.style.setProperty('pointer-events', value, priority);
  }
  let frame = 0;
  const follow = () => {
    for (const [e, kept] of covers) {
      if (e.isConnected) place(e, kept[0]);
      else uncover(e, kept);
    }
    frame = requestAnimationFrame(follow);
  };
  follow();
  return () => {
    stop();
    cancelAnimationFrame(frame);
    for (const [e, kept] of covers) uncover(e, kept);
  };
}
