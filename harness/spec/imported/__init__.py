"""Tests of Playwright suites as tasks: their source is followed with symbolic values, and never executed."""
