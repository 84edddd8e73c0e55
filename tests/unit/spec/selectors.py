"""Selectors that Playwright and Chromium read, and others that they refuse (tests/browser/test_selectors.py asks)."""

from __future__ import annotations

GOOD = (
    "#a", ".a.b > c", "#a >> nth=0", "a>>visible=true", 'text=Hello "world" >> b', 'text="exact"', '"exact"',
    "'exact'", "text=/re[g]ex/i", """//div[@id='x']/..//a[contains(text(), "it's")]""", "(//a)[2]", "..", "xpath=//a",
    "css=div:has(> p)", 'div:has-text("x")', ':text("x")', ":text-is('x')", ':text-matches("^a+$", "i")',
    "#a:has(h2:text('x'))", 'input:right-of(:text("Name"))', ':nth-match(:text("Buy"), 3)', "button:near(.a, 50)",
    ":is(button, a):visible", "a:not(.b, [c])", "li:nth-child(2n + 1 of .x)", '[data-x="a>>b"]',
    """[data-x='a"b'] >> c""", "a[href^=x i]", r"[xlink\:href]", "[*|href]", r"#a\:b", r"#\31 23", r".a\/b",
    "role=button", 'role=button[name="x"]', 'role=button[name="x"i]', "role=button[name=/x[/]y/i]",
    'role=heading[level=2][name*="a" i]', "role=checkbox[checked=mixed][disabled]", "role=button [ pressed = true ]",
    "id=x", "data-testid=abc", "data-test-id=q", 'internal:label="User name"i', 'internal:role=button[name="x"i]',
    'internal:attr=[placeholder="x"i]', 'internal:testid=[data-testid="x"s]', 'internal:text="x"i',
    'a >> internal:has="b >> nth=1"', 'a >> internal:has-text="x"i', 'a >> internal:and="b"', "*css=a >> b",
    "div >> .. ", "> a", "a + b ~ c", "*", ":root", "a:hover", "a /* [ */ b", "dialog:modal", ":lang(en)",
    "a:nth-of-type(-n+3)", "#a >> css=b", 'form#x input[name="a[b]"]', 'td:has(> a[href*="("])',
    "button:has-text('a (b)')", ":scope > a", "input[type=password]", r"""[aria-label="a, b"], [title='x\'y']""",
    ":above(a)", "a,b , c", "[data-a=--x]", ".-a", ".--a", "x-y", ":not(:has(a))", ".ü", "#ñ", "css:light=a",
    "label=User name", 'label="User name"', "label=Don't >> nth=0", "placeholder=/e-?mail/i", 'alt="a >> b"i',
    "title=x", "testid=save", 'testid="a b"', "tr >> has-text=Bob >> visible=true", 'tr >> has="label=a \\"b\\""',
    'tr >> has-not="b"', 'a >> or="testid=x"', 'a >> and="text=x"', "*label=a >> b", 'a:near(b) >> has-not-text="x"i',
    'text="part"i',
)  # fmt: skip
MALFORMED = (
    "##q", "a##b", "div[", "div]", "div(", "div)", "#a:has(.b", "[a='b]", '[a="b"', "a[b]]", ":has-text('x)",
    "a:has-text(it's)", "a[b(c]", "li:nth-child(2", "p:text-is(a [b)", "lable=User name", "button[name=",
    "button[name=x", "#5a", ".5x", "[data-id=5]", "[a=b c]", "a:has-text(x)", "a:has-text()", ":visble", "a,,b", "a,",
    "a >", "a > > b", "a >>", ">> a", "//a[@x='y]", "//a[1))", 'role=button[nam="x"]', 'role=button[name="x]', "role=",
    "role=button name=x", "name=x", "label=", 'label="x', "a:not(", "[]", "[=x]", "a..b", "a$b", "a:", "a b'c'",
    "a >> internal:has=a", 'a >> internal:has="b["', '"x" y', "@a", "a!b", "a[b~c]",
)  # fmt: skip
