"""Top-level conftest: the tests drive pytest itself."""

pytest_plugins = ["pytester"]
