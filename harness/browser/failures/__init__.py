"""Why an act failed: whatever it raised becomes one Failure. This is the order in which the causes are asked for.

Each list is a function, and what it asks, in order. The first answer stands, unless a line says that a later one
outweighs it. A test keeps the lists true.

`failure_of`: of any exception of an act.
- `undelivered`: the act itself has said what failed; a download without a file is explained by the page that came.
- `lost`: driver, browser or page are gone. That comes before any blame.
- `aborted`: a navigation was broken off, and the news of a crash comes a little later.
- `unanswered`: the outer deadline has ended the act: who does not answer?
- `_explained`: all of them answer, so the element that is missing says why.
- `session_lost`: it outweighs that, where the page is a login page.
- `_live`: Playwright's own error, with everything alive.
- `strayed_page`: it outweighs that, where a popup was to leave the allowed domains.
- `refused_page`: it outweighs that, where the page shows that its site has failed.
- `session_lost`: it outweighs that, as above.

`unanswered`: the outer deadline.
- `dead`: a part is gone.
- `blocked`: a dialog is open.
- `hung`: the page, or the browser, does not answer.
- `timed_out`: everything answers.

`_explained`: an act that was ended from outside.
- `late_wait`: of a `wait`, what is there instead.
- `element_failure`: of any other act, its element.

`_live`: by what the message says.
- `cut_short`: the navigation gave way to another one, or was given up.
- `opening_failure`: a network error of `open`.
- `_ambiguous`: the selector matches several elements.
- `_too_late`: Playwright's own timeout, unless the message names its cause (a bad selector, a detached element).

`_too_late`: dialog, network, page and element.
- `blocked`: a dialog is open.
- `late_opening`: of an `open`, its navigation.
- `no_answer`: the act has sent a request that the site does not answer.
- `dead`: a part is gone by now.
- `hung`: the page, or the browser, does not answer.
- `lost_page`: the page of an earlier step is the browser's error page.
- `late_wait`: of a `wait`, what is there instead.
- `_unready`: what held the act up.

`late_opening`: an `open` that did not end.
- `_broken`: only its request knows the network error.
- `hung`: the page, or the browser, does not answer.
- `no_answer`: the site says nothing.
- `unfinished`: the document came, and was not loaded in time.

`_unready`: an act on an element.
- `navigation_failure`: it was done, and what it opened failed.
- `element_failure`: it was not done.

`navigation_failure`: what the act has opened.
- `_unopened`: it failed, or its site refused it.
- `strayed_page`: a popup was to leave the allowed domains.
- `_redirected_astray`: a redirect has left them.

`element_failure`: the element, by what page and call log say.
- `_no_place`: the place to drop on is covered.
- `timed_out`: the page tells nothing, or the act was begun.
- `_nowhere`: nothing matches. A frame that is missing comes before.
- `_not_ready`: hidden, disabled, covered or moving.
"""
