"""Programs for this repository that are not part of the installed package."""
