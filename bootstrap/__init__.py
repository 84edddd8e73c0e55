"""Prepares a fresh clone: virtual environment, project, browser. Standard library only, Python 3.11 or newer."""
