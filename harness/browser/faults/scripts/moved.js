// Moves elements in every frame that is drawn. By animations: the page's own styles stay as they are.
(settings, met) => {
  const moving = new Map();
  const stop = watch(settings.selector, e => {
    if (moving.has(e)) return;
    const inline = getComputedStyle(e).display === 'inline';
    const [from, to] = inline ? [{left: '0px'}, {left: '12px'}] : [{translate: '0px'}, {translate: '12px'}];
    if (inline) from.position = to.position = 'relative';
    const animation = e.animate([from, to], {duration: 12, iterations: Infinity});
    animation.pause();
    moving.set(e, animation);
    met();
  });
  let frame = 0, place = 0;
  const move = () => {
    place = (place + 1) % 12; // by frames, not by time: two frames may be drawn at once
    for (const animation of moving.values()) animation.currentTime = place;
    frame = requestAnimationFrame(move);
  };
  frame = requestAnimationFrame(move);
  return () => {
    stop();
    cancelAnimationFrame(frame);
    for (const animation of moving.values()) animation.cancel();
  };
}
