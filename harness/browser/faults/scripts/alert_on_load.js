// Raises an alert when a page has loaded, not in its frames.
(settings, met) => {
  if (window !== top || !location.protocol.startsWith('http')) return undefined;
  const raise = () => {
    met();
    alert(settings.message);
  };
  addEventListener('load', raise, {once: true});
  return () => removeEventListener('load', raise);
}
