// Takes elements off the page, and puts them back: after `seconds`, when there are any, else when it is undone.
// While the page is still being built they are only hidden, so that its scripts can prepare them.
(settings, met) => {
  const places = new Map();
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${settings.selector} { display: none !important }`);
  document.adoptedStyleSheets.push(sheet);
  let stop = () => {};
  const begin = () => {
    stop = watch(settings.selector, e => {
      const place = document.createComment('');
      places.set(place, e);
      e.replaceWith(place);
      met();
    });
  };
  const end = () => {
    document.removeEventListener('DOMContentLoaded', begin);
    stop();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter(each => each !== sheet);
    for (const [place, e] of places) place.replaceWith(e);
    places.clear();
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', begin, {once: true});
  else begin();
  if (settings.seconds) setTimeout(end, settings.seconds * 1000);
  return end;
}
