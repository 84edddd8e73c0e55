"""Classifies the exception of an act as one Failure. This is the order in which the possible causes are examined.

Each list is a function and the causes that it examines, in order. The first cause that applies is the failure, unless a
line says that a later one replaces it. A test keeps the lists true.

`failure_of`: any exception of an act.
- `undelivered`: the act itself has named the cause; a download without a file is explained by the page that opened.
- `lost`: the driver, the browser or the page is gone. This comes before any other cause.
- `aborted`: a navigation was broken off, and a crash is reported a little later.
- `unanswered`: the outer deadline ended the act, because some part does not answer.
- `_explain_cut_off`: all parts answer, so what was seen until then is the cause.
- `session_lost`: it replaces that cause if the page is a login page.
- `_live`: Playwright's own error, while all parts are alive.
- `strayed_page`: it replaces that cause if a popup was about to leave the allowed domains.
- `refused_page`: it replaces that cause if the page shows that its site has failed.
- `session_lost`: it replaces that cause, as above.

`unanswered`: the outer deadline.
- `dead`: a part is gone.
- `blocked`: a dialog is open.
- `hung`: the page, or the browser, does not answer.
- `timed_out`: everything answers.

`_explain_cut_off`: an act that was ended from outside.
- `no_answer`: the page waits for a document that its site does not send.
- `hung`: the page floods the browser with events, and did not say in time what it shows.
- `_wait_failure`: the act was a `wait`; the failure names the elements that exist instead.
- `element_failure`: the act was another one; the cause is its element.

`_live`: the text of the message.
- `aborted_navigation`: another navigation replaced this one, or it was given up.
- `opening_failure`: a network error of `open`.
- `_ambiguous`: the selector matches several elements.
- `_too_late`: Playwright's own timeout, unless the message names its cause (a bad selector, a detached element).

`_too_late`: dialog, network, page and element.
- `blocked`: a dialog is open.
- `late_opening`: the act was an `open`; the cause is its navigation.
- `dead`: a part is gone by now.
- `hung`: the page, or the browser, does not answer.
- `no_answer`: the act has sent a request that the site does not answer.
- `lost_page`: the page of an earlier step is the browser's error page.
- `_wait_failure`: the act was a `wait`; the failure names the elements that exist instead.
- `_unready`: something delayed the act.

`late_opening`: an `open` that did not end.
- `_broken`: the request, and only the request, knows the network error.
- `hung`: the page, or the browser, does not answer.
- `no_answer`: the site sends no answer.
- `_unfinished`: the document arrived, and did not load in time.

`_unready`: an act on an element.
- `navigation_failure`: the act was performed, and the page that it opened failed.
- `element_failure`: the act was not performed.

`navigation_failure`: the page that the act has opened.
- `_broken_page`: it failed, or its site refused it.
- `strayed_page`: a popup was about to leave the allowed domains.
- `_without_parts`: the page came without a script or a stylesheet.
- `_redirected_astray`: a redirect has left them.

`element_failure`: the element, as the page and the call log describe it.
- `_no_place`: the place to drop on is covered.
- `_nowhere`: nothing matches. A missing frame comes first.
- `timed_out`: neither the page nor the call log says what held the act up, or the act had begun.
- `_not_ready`: the element is hidden, disabled, covered or moving.
"""
