"""Ordinary Playwright tests: what their pages do, the cause of a failure, and its evidence."""
