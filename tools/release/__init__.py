"""A release: `make release` does all but the upload."""
