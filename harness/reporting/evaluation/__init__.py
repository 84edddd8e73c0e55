"""The reports of an evaluation: for the terminal, for the page of a CI job, and as a page of its own."""
