"""What was done in a browser, or is done by a test, as the text of a task (`harness record`, `harness import`)."""
