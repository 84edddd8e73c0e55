"""Generators of pages and pictures under `docs/`."""
