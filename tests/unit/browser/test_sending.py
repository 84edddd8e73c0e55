"""What leaves a page by an act, and what it sends by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.browser.sending import MOST, OFTEN, TOLD, Announcer, Sending, keeps_open
from harness.model.record import MESSAGE, Sent
from tests.unit.fakes import FakeClock

SOCKET = "ws://shop.local/socket"
BEAT = "http://shop.local/beat"


class Page:
    """A page that sends, on a clock that jumps."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.sending = Sending(self.clock.now)

    def begin(self, *, looks: bool = False, opens: bool = False) -> None:
        self.sending.begin(looks=looks, opens=opens)

    def beat(self, after: float, body: bytes = b"", url: str = BEAT) -> Sent | None:
        self.clock.time += after
        return self.sending.leaves("POST", url, page=False, after=None, body=body)

    def goes(self, method: str, url: str, after: Sent | None = None) -> Sent:
        sent = self.sending.leaves(method, url, page=True, after=after, body=None)
        assert sent is not None
        return sent


def test_what_an_act_sends_is_known_once_with_its_method() -> None:
    page = Page()
    page.begin()
    page.beat(0.0)
    assert page.sending.leaves("GET", "http://shop.local/picture", page=False, after=None, body=None) is None
    assert [(each.method, each.url, each.unsafe) for each in page.sending.take()] == [("POST", BEAT, True)]
    assert page.sending.take() == ()


def test_a_heartbeat_is_told_from_an_act_once_it_was_regular_with_no_act_in_between() -> None:
    page = Page()
    page.begin(looks=True)
    first = [page.beat(1.0, b"t=%d" % number) for number in (10, 200, 3000)]
    assert [each is not None for each in first] == [True, True, False]
    page.begin()
    assert page.beat(1.0, b"t=40000") is None
    assert page.beat(0.5, b"item=pen") is not None


@pytest.mark.parametrize("pauses", [(0.05, 0.05, 0.05), (1.0, 2.0, 4.0)], ids=["a-burst", "the-page-tries-again"])
def test_what_is_not_regular_counts(pauses: tuple[float, ...]) -> None:
    page = Page()
    page.begin(looks=True)
    assert all(page.beat(pause) for pause in pauses)


def test_clicks_at_even_intervals_are_no_heartbeat() -> None:
    page = Page()
    for _ in range(6):
        page.begin()
        assert page.beat(1.0, b"item=pen") is not None


def test_while_a_step_only_looks_what_was_known_before_the_act_is_not_its_doing() -> None:
    for opens, often in ((True, 1), (False, OFTEN)):
        page = Page()
        page.begin(opens=opens)
        for _ in range(often):
            assert page.beat(1.0) is not None
        page.begin()
        page.begin(looks=True)
        assert page.beat(1.0) is None
        assert page.beat(1.0, b"item=pen") is not None


def test_what_two_acts_send_late_once_each_is_their_doing() -> None:
    page = Page()
    for number in (1, 22):
        page.begin()
        page.begin(looks=True)
        assert page.beat(1.0, b"item=%d" % number) is not None


def test_a_redirect_of_what_is_unsafe_follows_it_and_a_redirect_of_a_get_does_not() -> None:
    page = Page()
    page.begin()
    post = page.goes("POST", "http://shop.local/order")
    thanks = page.goes("GET", "http://shop.local/thanks", post)
    assert (post.follows, thanks.follows) == (False, True)
    assert page.goes("GET", "http://shop.local/end", thanks).follows
    page.begin()
    link = page.goes("GET", "http://shop.local/order?item=pen#here")
    assert (link.url, link.follows) == ("http://shop.local/order?item=pen", False)
    assert not page.goes("GET", "http://shop.local/thanks", link).follows


def test_a_page_follows_an_unsafe_request_once_that_was_answered() -> None:
    page = Page()
    page.begin()
    fetched = page.beat(0.1)
    assert fetched is not None
    assert not page.goes("GET", "http://shop.local/a").follows
    page.sending.answered(fetched)
    assert page.goes("GET", "http://shop.local/b").follows
    page.begin()
    assert not page.goes("GET", "http://shop.local/c").follows


@pytest.mark.parametrize(
    ("error", "arrived"),
    [
        ("net::ERR_CONNECTION_REFUSED", False),
        ("net::ERR_BLOCKED_BY_CLIENT", False),
        ("net::ERR_BLOCKED_BY_RESPONSE", True),
        ("net::ERR_CONNECTION_RESET", True),
        ("net::ERR_ABORTED", True),
        ("net::ERR_FAILED", True),
    ],
)
def test_some_errors_say_that_nothing_was_sent(error: str, arrived: bool) -> None:
    page = Page()
    sent = page.goes("POST", "http://shop.local/order")
    page.sending.failed(sent, error)
    assert (sent.arrived, sent.unsafe) == (arrived, arrived)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["act", "look", "send"]), st.floats(0, 3), st.binary(max_size=3))))
def test_the_first_of_a_kind_after_an_act_that_was_never_regular_is_kept(moves: list[tuple[str, float, bytes]]) -> None:
    page = Page()
    for what, after, body in moves:
        if what == "send":
            page.beat(after, body)
        else:
            page.begin(looks=what == "look")
    page.begin()
    assert page.beat(0.1, b"a body of its own") is not None
    assert len(page.sending.take()) <= MOST


def test_what_a_page_sends_as_it_is_left_is_its_own_doing_only_where_nobody_had_acted_on_it() -> None:
    page = Page()

    def parts() -> Sent | None:
        return page.sending.leaves("POST", BEAT, page=False, after=None, body=b"", before=True)

    page.begin(opens=True)
    page.begin()
    page.begin(opens=True)
    sent = parts()
    assert sent is not None
    page.sending.answered(sent)
    assert sent.before
    assert not page.sending.unsafe
    assert not page.goes("GET", "http://shop.local/").follows
    page.begin()
    page.begin(opens=True)
    assert parts() is not None
    page.begin(opens=True)
    assert parts() is None
    page.begin()
    page.begin(opens=True)
    assert parts() is None


def test_an_unsafe_request_is_announced_as_it_leaves_unless_a_route_answers_it() -> None:
    announcer, heard = Announcer(), list[Sent]()
    announcer.heard = heard.append
    sending = Sending(FakeClock().now, announcer)
    sending.begin(looks=False)
    sending.leaves("GET", "http://shop.local/", page=True, after=None, body=None)
    sending.leaves("POST", "http://shop.local/mock", page=False, after=None, body=None, routed=True)
    assert heard == []
    left = sending.leaves("POST", BEAT, page=False, after=None, body=None)
    assert heard == [left]


@pytest.mark.parametrize(
    ("message", "beat"),
    [
        (b"2", True),
        (b'{"type":"ping"}', True),
        (b'[null,"5","phoenix","heartbeat",{}]', True),
        (b"2ping", True),
        (b"2probe", True),
        (b"40", True),
        (b'40{"token":"x"}', True),
        (b'42["order",1]', False),
        (b'{"type":"connection_init","payload":{}}', True),
        (b'{"protocol":"json","version":1}\x1e', True),
        (b'["4","4","lv:phx-F1","phx_join",{"url":"/"}]', True),
        (b'["4","5","lv:phx-F1","event",{"type":"click"}]', False),
        (b'["4","4","room:1","phx_join",{}]', False),
        (b"4", False),
        (b'{"type":"order","item":"ping"}', False),
        (b'{"type":"subscribe"}', False),
        (b"ping " * 30, False),
    ],
)
def test_a_message_that_only_keeps_a_websocket_open_is_told_from_others(message: bytes, beat: bool) -> None:
    page = Page()
    page.begin()
    assert keeps_open(message) is beat
    sent = page.sending.leaves(MESSAGE, SOCKET, page=False, after=None, body=message)
    assert (sent is None) is beat
    assert page.sending.unsafe is not beat


def test_of_very_many_requests_the_newest_are_known_as_told() -> None:
    page = Page()
    page.begin()
    urls = [f"{BEAT}?{number}" for number in range(TOLD + 5)]
    for url in urls:
        page.beat(0.0, url=url)
    page.sending.tells("POST", "http://shop.local/report")  # of a policy: it is no evidence of a write
    page.sending.take()
    page.sending.add_untold(("POST", url, False) for url in [*urls[-3:], "http://shop.local/report", "http://x/bye"])
    assert [each.url for each in page.sending.take()] == ["http://x/bye"]


def test_what_may_have_been_sent_is_told_only_once_that_is_so() -> None:
    heard: list[Sent] = []
    announcer = Announcer()
    announcer.heard = heard.append
    sending = Sending(FakeClock().now, announcer)
    sending.begin(looks=False)
    doubt = sending.doubt("a worker")
    assert (heard, doubt.unsafe, sending.unsafe) == ([], True, False)
    sending.announce(doubt)
    assert heard == [doubt] == [*sending.take()]
    assert doubt.describe() == "may have sent what could not be seen: a worker"
