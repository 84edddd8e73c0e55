// Replaces elements by copies of themselves and back, in every frame that is drawn.
(settings, met) => {
  const pairs = new Map();
  const copies = new WeakSet();
  const stop = watch(settings.selector, e => {
    if (pairs.has(e) || copies.has(e)) return;
    const copy = e.cloneNode(true);
    for (const each of [copy, ...copy.querySelectorAll('*')]) copies.add(each);
    pairs.set(e, copy);
    met();
  });
  let frame = 0;
  const swap = () => {
    for (const [e, copy] of pairs) {
      if (e.isConnected) e.replaceWith(copy);
      else if (copy.isConnected) copy.replaceWith(e);
      else pairs.delete(e);
    }
    frame = requestAnimationFrame(swap);
  };
  frame = requestAnimationFrame(swap);
  return () => {
    stop();
    cancelAnimationFrame(frame);
    for (const [e, copy] of pairs) if (copy.isConnected) copy.replaceWith(e);
  };
}
