"""What a page displays, in JavaScript: one definition for the scripts of criteria, acts and failures."""

from __future__ import annotations

DISPLAYED = """
  const field = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
  const boxed = e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  const visible = e => boxed(e) && e.checkVisibility({visibilityProperty: true});
  const textOf = e => field(e) ? e.value : e.innerText ?? e.textContent;
  const contentBoxed = e => {
    const range = document.createRange();
    range.selectNodeContents(e);
    return [...range.getClientRects()].some(box => box.width > 0 && box.height > 0);
  };
  const displayed = e => {
    const of = ['OPTION', 'OPTGROUP'].includes(e.tagName) && e.closest('select') || e;
    const style = getComputedStyle(of);
    if (style.display === 'contents') return contentBoxed(of);
    if (!of.checkVisibility({visibilityProperty: true})) return false;
    return boxed(of) || !textOf(of).trim() || style.overflow === 'visible' && contentBoxed(of);
  };
  const fold = text => text.replace(/[\\u200b\\u00ad]/g, '').trim().replace(/\\s+/g, ' ');
"""
"""`visible` as Playwright has it; `displayed` also holds for an element without any text that takes no room, and for
one without a box of its own whose content has one: a person sees what there is to see of it."""
