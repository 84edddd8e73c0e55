"""A stranger's program that drives the browser itself over the DevTools protocol, with a Playwright of its own.

Usage: python driving_agent.py ws://... ADDRESS [abroad]
"""

from __future__ import annotations

import sys

from playwright.sync_api import Error, sync_playwright

with sync_playwright() as playwright:
    browser = playwright.chromium.connect_over_cdp(sys.argv[1])
    (context,) = browser.contexts
    pages = [page.url for page in context.pages]
    print("pages", pages)
    page = context.pages[0]
    away = context.new_page()
    try:
        away.goto("http://bank.local/")
        print("came to the bank")
    except Error as error:
        print("no bank", error.message.splitlines()[0])
    try:
        away.goto("file:///etc/hosts")
        print("came to a file")
    except Error as error:
        print("no file", error.message.splitlines()[0])
    away.close()
    page.goto("http://shop.local/product/WM-5521")
    page.click("#add-to-cart")
    popup = context.new_page()  # in the same context: it has the cart
    page.close()
    popup.goto("http://shop.local/checkout")
    popup.fill("#address", sys.argv[2])
    popup.select_option("#shipping-speed", "same_day")
    popup.select_option("#payment-card", "PM-1")
    popup.click("#checkout-form [type=submit]")
    popup.wait_for_selector("#order-id")
    files = {"files": ["/etc/hosts"]}
    commands = {"Browser.close": {}, "Target.createBrowserContext": {}, "DOM.setFileInputFiles": files}
    for refused, params in commands.items():
        try:
            print(refused, context.new_cdp_session(popup).send(refused, params))
        except Error as error:
            print("refused", error.message.splitlines()[0])
