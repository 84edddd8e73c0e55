"""From an exception of Playwright to a Failure: `classify` shows the order in which evidence counts."""
