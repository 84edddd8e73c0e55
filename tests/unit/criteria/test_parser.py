"""What parses, what does not, and where the error points."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.criteria import CriterionError, parse, parse_value
from harness.criteria.syntax import Compare, Every, Length, Literal, Not, Part, Read, Some, Stable, Test, Within

A = Test(Read("exists", ("#a",)))
B = Test(Read("visible", ("#b",)))
ASKED = Read("requests", ("GET *",))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("exists('#a')", A),
        ("""exists("#l .c:has-text('Mr #1')")""", Test(Read("exists", ("#l .c:has-text('Mr #1')",)))),
        ('json("env","x.y") != ""', Compare("!=", Read("json", ("env", "x.y")), Literal(""))),
        ("mem('k') == -1.5", Compare("==", Read("mem", ("k",)), Literal(-1.5))),
        ("mem('a') == mem('b')", Compare("==", Read("mem", ("a",)), Read("mem", ("b",)))),
        ("null == mem('a')", Compare("==", Literal(None), Read("mem", ("a",)))),
        ("text('h1') includes 'a, b]'", Compare("includes", Read("text", ("h1",)), Literal("a, b]"))),
        ("url().includes('/x')", Compare("includes", Read("url", ()), Literal("/x"))),
        (r"url() matches '\d+\.html'", Compare("matches", Read("url", ()), Literal(r"\d+\.html"))),
        ("mem('l').length >= 2", Compare(">=", Length(Read("mem", ("l",))), Literal(2))),
        ("requests('GET *').length == 1", Compare("==", Length(ASKED), Literal(1))),
        (
            "requests('GET *')[-1].json['a b'] == 1",
            Compare("==", Part(Part(Part(ASKED, -1), "json"), "a b"), Literal(1)),
        ),
        ("dialogs() includes 'a'", Compare("includes", Read("dialogs", ()), Literal("a"))),
        ("dialogs()[-1].type == 'a'", Compare("==", Part(Part(Read("dialogs", ()), -1), "type"), Literal("a"))),
        ("(requests('GET *')) [0] .length == 1", Compare("==", Length(Part(ASKED, 0)), Literal(1))),
        ("requests('GET *')[0].url.includes('/x')", Compare("includes", Part(Part(ASKED, 0), "url"), Literal("/x"))),
        ("time_since('k') < 7d", Compare("<", Read("time_since", ("k",)), Literal(604_800))),
        ("exists('#a') == false", Compare("==", Read("exists", ("#a",)), Literal(False))),
        ("ALL[exists('#a'), visible('#b')]", Every((A, B))),
        ("ALL[\n  exists('#a'),\n  visible('#b'),\n]", Every((A, B))),
        ("exists('#a') && visible('#b')", Every((A, B))),
        ("ANY[exists('#a'), visible('#b')]", Some((A, B))),
        ("exists('#a') || exists('#a') && visible('#b')", Some((A, Every((A, B))))),
        ("(exists('#a') || exists('#a')) && !visible('#b')", Every((Some((A, A)), Not(B)))),
        ("NOT[NOT[exists('#a')]]", Not(Not(A))),
        ("WITHIN(500ms, exists('#a'))", Within(0.5, A)),
        ("EVENTUALLY(STABLE(2, exists('#a')))", Within(float("inf"), Stable(2, A))),
    ],
)
def test_the_tree_of_a_criterion(text: str, tree: object) -> None:
    assert parse(text).tree == tree


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        (r"'it\'s'", "it's"),
        (r'"say \"hi\""', 'say "hi"'),
        (r"'a\nb\\c'", "a\nb\\c"),
        (r"'\u4e2d\uD83D\uDE00'", "\u4e2d\U0001f600"),
        (r"'#a\:b \d \u12'", r"#a\:b \d \u12"),
    ],
)
def test_escapes(quoted: str, value: str) -> None:
    assert parse_value(quoted).tree == Literal(value)


@pytest.mark.parametrize(
    ("text", "offset", "problem", "hint"),
    [
        ("", 0, "empty", ""),
        ("   ", 0, "empty", ""),
        ("text('#a') = 'x'", 11, "unexpected `=`", "`==`"),
        ("text('#a') === 'x'", 11, "unexpected `===`", "write `text('#a') == 'x'`"),
        ("text('#a') !== 'x'", 11, "unexpected `!==`", "write `text('#a') != 'x'`"),
        ("text('#a')", 0, "a criterion is a comparison", "text('#a') != ''"),
        ("mem('flag')", 0, "a criterion is a comparison", "mem('flag') == true"),
        ("true", 0, "a criterion is a comparison", ""),
        ("txt('#a') == 1", 0, "unknown function `txt`", "`text`"),
        ("Exists('#a')", 0, "unknown function `Exists`", "`exists`"),
        ("mem('a') == done", 12, "unknown name `done`", "'done'"),
        ("mem('a') == True", 12, "unknown name `True`", "`true`"),
        ("mem('a') and mem('b')", 9, "unknown operator `and`", "`&&`"),
        ("mem('a') == 1 and mem('b') == 1", 14, "unexpected `and`", "`&&`"),
        ("mem('a') == 1 & mem('b') == 1", 14, "unexpected `&`", "`&&`"),
        ("not exists('a')", 0, "unknown name `not`", "NOT[...]"),
        ("text('a') contains 'x'", 10, "unknown operator `contains`", "`includes`"),
        ("text('a').contains('x')", 10, "unknown method `.contains()`", "`includes`"),
        ("text('a').size == 1", 10, "unknown property `.size`", "`.length`"),
        ("text('a').includes == 1", 10, "unknown property `.includes`", ".includes(...)"),
        ("text('a').includes('x', 'y')", 10, "takes one argument", ""),
        ("mem('a') == 1 == 2", 14, "unexpected `=`", "one comparison at a time"),
        ("text('#a') == 'x", 14, "never ends", ""),
        ("text('#a') == \u201cx\u201d", 14, "unexpected", "straight quotes"),
        ("mem('a')[0] == 1", 8, "unexpected `[`", "into the path"),
        ("texts('.row')[1] == 'a'", 13, "unexpected `[`", "selector: text('.row >> nth=1')"),
        ("class('.row')[0] == 'a'", 13, "unexpected `[`", "selector: class('.row >> nth=0')"),
        ("5 * 3 == 15", 2, "unexpected `*`", "arithmetic"),
        ("(mem('a') == 1", 14, "ends too early", ""),
        ("mem('a') ==  ", 11, "ends too early", ""),
        ("ALL[]", 0, "ALL[...] is empty", ""),
        ("all[exists('a')]", 0, "unknown combinator", "`ALL`"),
        ("WITHIN[1, exists('a')]", 0, "unknown combinator", "round brackets"),
        ("ALL(exists('a'))", 0, "ALL takes square brackets", ""),
        ("ALL[exists('a') exists('b')]", 16, "unknown operator `exists`", "comma"),
        ("NOT[exists('a'), exists('b')]", 17, "NOT[...] takes one criterion", "ALL"),
        ("WITHIN(exists('a'))", 0, "WITHIN takes two arguments", ""),
        ("WITHIN(-1, exists('a'))", 7, "seconds", ""),
        ("WITHIN(mem('a'), exists('a'))", 7, "seconds", ""),
        ("WITHIN(1, text('a'))", 10, "a criterion is a comparison", ""),
        ("NOT[exists('a')] == true", 0, "a condition cannot stand", ""),
        ("EVENTUALLY(exists('a')) == true", 0, "a condition cannot stand", ""),
        ("mem('a') == (exists('a') && exists('b'))", 13, "a condition cannot stand", ""),
        ("json('env') == 1", 0, "`json` takes 2 arguments", "the path '*' takes all"),
        ("url('x') == 1", 0, "`url` takes no arguments", ""),
        ("exists(mem('sel'))", 7, "quoted text", ""),
        ("exists(' ')", 7, "is empty", ""),
        ("mem('a..b') == 1", 7, "bad key", ""),
        ("json('env', 'a[x]') == 1", 14, "bad path", ""),
        ("text('a') matches '(x'", 21, "bad regular expression", ""),
        ("text('a') matches mem('p')", 18, "quoted regular expression", ""),
        ("text('a') matches '((a{1000}){1000}){1000}'", 19, "too many repeats", ""),
        ("text('a') matches 'x(?R)'", 20, "recursion", ""),
        ("mem('a') == {b: 1, b: 2}", 19, "appears twice", ""),
        ("mem('a') == 1e999", 12, "too large", ""),
        ("requests('*')[1.5] == 1", 14, "a whole number", ""),
        ("requests('*')[0].id.url == mem('a').id", 36, "unknown property", "inside the quotes"),
        ("requests('*')", 0, "a criterion is a comparison", ".length == 1"),
        ("dialogs()", 0, "a criterion is a comparison", "dialogs().length == 1"),
        ("dialogs('alert') == 1", 0, "takes no argument", ""),
        ("requests(mem('a')) == 1", 9, "a quoted text", ""),
        ("mem('a') == " + "9" * 200, 12, "at most 100", ""),
        (r"mem('a') == '\ud800'", 12, "surrogate", ""),
        ("mem('a') == 1\n  && mem('b')", 19, "a criterion is a comparison", ""),
        ("(" * 60 + "exists('a')" + ")" * 60, 50, "nested", ""),
        ("!" * 60 + "exists('a')", 50, "nested", ""),
        ("mem('a')" + ".length" * 60 + " == 1", 0, "nested", ""),
        ("mem('a') == '" + "x" * 10_000 + "'", 10_000, "at most 10000", ""),
    ],
)
def test_an_error_says_what_and_where(text: str, offset: int, problem: str, hint: str) -> None:
    with pytest.raises(CriterionError) as caught:
        parse(text)
    assert problem in caught.value.problem
    assert caught.value.offset == offset
    assert hint in caught.value.hint
    assert caught.value.text == text


def test_an_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(CriterionError) as caught:
        parse("ALL[exists('a'),\n  text('\u8ba2\u5355') = 1]")
    error = caught.value
    assert (error.line, error.column) == (2, 14)
    assert str(error).splitlines()[1:3] == ["    text('\u8ba2\u5355') = 1]", "  " + " " * 15 + "^"]
    assert "hint: use `==`" in str(error)


def test_an_error_names_what_was_expected() -> None:
    with pytest.raises(CriterionError) as caught:
        parse("mem('a') ==")
    assert caught.value.expected == ("a value such as text('#id'), 'done' or 5",)
    with pytest.raises(CriterionError) as caught:
        parse("(mem('a') == 1 5")
    assert "`)`" in caught.value.expected


def test_an_error_survives_pickling() -> None:
    with pytest.raises(CriterionError) as caught:
        parse("mem('a')")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_what_can_be_told_without_running() -> None:
    text = "ANY[json('env', 'a') == mem('k'), ALL[STABLE(1, exists('#a')), value('#b', frame='#f') == time_since('t')]]"
    criterion = parse(text)
    assert criterion.channels == {"env"}
    assert criterion.memory_keys == {"k", "t"}
    assert criterion.selectors == {("#a", None), ("#b", "#f")}
    assert criterion.waits
    assert not parse("exists('#a')").waits
    assert str(criterion) == criterion.text


def test_parsing_is_cached() -> None:
    assert parse("exists('#cached')") is parse("exists('#cached')")


@pytest.mark.parametrize(
    "text", ["text('#a')", "mem('x').length", "'literal'", "[1, mem('x')]", "{a: count('.i')}", "url() == 'x'"]
)
def test_values(text: str) -> None:
    assert parse_value(text).text == text


@pytest.mark.parametrize("text", ["ALL[exists('a')]", "!exists('a')", "EVENTUALLY(exists('a'))", "", "literal"])
def test_a_condition_is_no_value(text: str) -> None:
    with pytest.raises(CriterionError):
        parse_value(text)


PIECES = ["ALL[", "NOT[", "]", "(", ")", "{", "}", ",", ":", ".", "'", '"', "\\", "==", "<", "=", "!", "&&", "|"]
PIECES += [
    "mem",
    "('a')",
    "includes ",
    "matches ",
    " true",
    "WITHIN(",
    "5",
    "-",
    "1e9",
    "7d",
    ".length",
    "\n",
    "\u00a0",
    "[",
    "a..b",
    "text",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
@example("mem('a') matches '" + "(" * 900 + "'")
@example("exists('a').length.")
def test_parsing_raises_nothing_but_its_own_error(text: str) -> None:
    for read in (parse, parse_value):
        error = problem_of(read, text)
        assert error is None or (0 <= error.offset <= len(text) and str(error))


def problem_of(read: Callable[[str], object], text: str) -> CriterionError | None:
    try:
        read(text)
    except CriterionError as error:
        return error
    return None
