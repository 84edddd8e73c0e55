"""The text of a first task: commented, and green as it is."""

from __future__ import annotations

import json
import re

from harness.spec.readers import read_yaml

_HEAD = """\
# yaml-language-server: $schema=@SCHEMA@
# Written by `harness new`. It runs as it is; change it, and run it again:
#   harness run @PATH@
# `harness validate @PATH@` checks it without a browser; the schema above lists every key.
task_id: @NAME@
goal: @GOAL@
allowed_domains: [@HOST@] # nothing is sent to any other host

# Limits in seconds: the whole task, its recovery included, and one attempt of one step.
timeout: 60
step_timeout: 10
expect_timeout: 5 # an assert and a success criterion wait so long until they hold

# What to try when something fails. What is left out has a default; `harness explain` lists what can fail.
error_recovery:
  on_timeout: retry_from_checkpoint # once, with limits half as long again
  on_network_error: {strategy: exponential_backoff, max_retries: 3, retry_delay_ms: 500}
"""
_TAIL = """\

# Before these steps (the first is 0) the state is saved: recovery can go back to it.
checkpoints: [@CHECKPOINT@]

"""
_DEMO = """\
  on_element_not_found:
    strategy: try_fallback_selector
    wait_seconds: 5
    fallback_selectors:
      "#search-box": ["input[name='q']", "input[type='search']"]
"""
_DEMO_STEPS = """\
steps:
  - {act: open, url: "http://shop.local/"}
  - {act: type, selector: "#search-box", value: wireless mouse}
  - {act: press, selector: "#search-box", value: Enter}
  - {act: wait, selector: ".product-item[data-sku='WM-5521']"}
  - {act: click, selector: ".product-item[data-sku='WM-5521'] .product-link"}
  - act: assert
    selector: "#product-title"
    value: Logitech M185
    remember: {product.price: "text('#product-price')"} # a memory key, and where its value comes from
  # A step that buys or pays is never to be done twice. Say so, and how to see that it took effect:
  # - {act: click, selector: "#add-to-cart", effect: write, done_when: "json('env', 'shop.cart.WM-5521.qty') == 1"}

# What must be true at the end: the page, what was remembered, the environment (`json('env', ...)`).
success_criteria:
  - "text('#product-sku') == 'WM-5521'"
  - "mem('product.price') <= 30"
memory_keys: [product.price] # a warning when it is missing at the end
"""
_SITE = """\
  on_element_not_found:
    strategy: wait_and_retry
    wait_seconds: 5 # fallback_selectors: {"#buy": ["button:has-text('Buy')"]}
"""
_SITE_STEPS = """\
steps:
  - {act: open, url: @URL@}
  - act: assert
    expr: "EVENTUALLY(exists('body'))"
    remember: {page.url: url()} # a memory key, and where its value comes from
  # - {act: type, selector: "#search", value: something}
  # - {act: click, selector: "button:has-text('Search')"}
  # - {act: wait, selector: ".result"}
  # A step that buys or pays is never to be done twice. Say so, and how to see that it took effect:
  # - {act: click, selector: "#pay", effect: write, done_when: "exists('#receipt')"}

# What must be true at the end. Ask for what your steps bring about: text('#id') == '...', count('.row') > 0, ...
success_criteria:
  - "mem('page.url') includes '@HOST@'"
memory_keys: [page.url] # a warning when it is missing at the end
"""


_GAP = re.compile(r"@([A-Z]+)@")


def demo_task(name: str, path: str, schema: str) -> str:
    """A task for the demo shop. `path` and `schema` are what people, and editors, are shown."""
    words = {"GOAL": "Find the wireless mouse, and what it costs", "HOST": "shop.local", "CHECKPOINT": "3"}
    return _filled(_HEAD + _DEMO + _TAIL + _DEMO_STEPS, name, path, schema, words)


def site_task(name: str, path: str, schema: str, url: str, host: str) -> str:
    """A task for a page of one's own: it is there, and its address is kept."""
    address = json.dumps(url.replace("${", "$${"))
    words = {"GOAL": f"Look at {host}", "HOST": host, "CHECKPOINT": "1", "URL": address}
    return _filled(_HEAD + _SITE + _TAIL + _SITE_STEPS, name, path, schema, words)


def _filled(text: str, name: str, path: str, schema: str, words: dict[str, str]) -> str:
    task_id = name if read_yaml(name) == name else json.dumps(name)  # a number would be none in quotes
    known = {"NAME": task_id, "PATH": path, "SCHEMA": schema, **words}
    return _GAP.sub(lambda gap: known[gap[1]], text)
