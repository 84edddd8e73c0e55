"""dom_snapshot.html: the page as it is now, with what its HTML alone does not tell.

It is a copy, made by a script in a world of its own: the page's scripts and observers notice nothing. The copy belongs
to a document without a window, in which no element of the page comes to life.
"""

from __future__ import annotations

import asyncio
from html import escape

from playwright.async_api import CDPSession, Frame, Page
from playwright.async_api import Error as PlaywrightError

from harness.browser.isolated import ask, script
from harness.masking import MARK

_FRAMES = 20
"""Frames of other origins that are copied, of each page the first ones."""
_FRAME_SECONDS = 0.5

_COPY = """(_, [hidden, whole]) => {
  const parent = () => { try { return window.frameElement } catch { return null } };
  if (!whole && parent()) return null;  // the copy of the document around it has it
  const made = document.implementation.createHTMLDocument('');
  const secret = e => e.type === 'password' ||
    /password|one-time-code|\\bcc-/.test(e.getAttribute('autocomplete') || '');
  const told = e => e.value && secret(e) ? hidden : e.value;
  const shadow = (...nodes) => {
    const template = made.createElement('template');
    template.setAttribute('shadowrootmode', 'open');
    template.content.append(...nodes);
    return template;
  };
  const inside = e => { try { return e.contentDocument?.documentElement } catch { return null } };
  const fill = {
    input: (e, to) => {
      if (e.type === 'checkbox' || e.type === 'radio') to.toggleAttribute('checked', e.checked);
      else if (e.type !== 'file' && (e.value || e.hasAttribute('value'))) to.setAttribute('value', told(e));
    },
    textarea: (e, to) => { to.textContent = told(e); },
    option: (e, to) => { to.toggleAttribute('selected', e.selected); },
  };
  const copy = node => {
    const to = made.importNode(node, true);
    if (node.nodeType !== 1) return to;
    const copies = [to, ...to.querySelectorAll('*')];
    [node, ...node.querySelectorAll('*')].forEach((e, number) => {
      const here = copies[number];
      fill[e.localName]?.(e, here);
      if (e.shadowRoot) here.prepend(shadow(...[...e.shadowRoot.childNodes].map(copy)));
      const framed = ['iframe', 'frame'].includes(e.localName) && inside(e);
      if (!framed) return;
      const shown = made.createElement('div');
      shown.setAttribute('data-frame', framed.ownerDocument.URL);
      shown.append(shadow(copy(framed)));
      here.after(shown);
    });
    return to;
  };
  return (document.doctype ? '<!DOCTYPE html>\\n' : '') + copy(document.documentElement).outerHTML;
}"""
_DOM = script("dom", _COPY)


async def dom_of(page: Page) -> str:
    """The page with its open shadow roots, its frames, and what its fields contain, except passwords.

    Shadow roots and frames are `<template shadowrootmode=open>`: that of a frame is in a `<div data-frame=URL>` behind
    its element, or behind the document if it is of another origin. Raises Playwright's errors.
    """
    whole: str = await _DOM.of_page(page, [MARK, True])
    others = [frame for frame in page.frames if frame is not page.main_frame][:_FRAMES]
    return whole + "".join(await asyncio.gather(*map(_framed, others)))


async def _framed(frame: Frame) -> str:
    """A frame whose origin is not that of the document around it; empty for others, and if it does not answer."""
    try:
        found = await _DOM.of_page(frame, [MARK, False], _FRAME_SECONDS)
    except PlaywrightError:
        return ""
    return (
        f'\n<div data-frame="{escape(frame.url)}"><template shadowrootmode="open">{found}</template></div>'
        if found
        else ""
    )


async def dom_behind(control: CDPSession) -> str:
    """The page of a control session, without frames of other origins. Raises Playwright's errors."""
    return str(await ask(control, f"hidden => ({_COPY})([], [hidden, true])", MARK) or "")
