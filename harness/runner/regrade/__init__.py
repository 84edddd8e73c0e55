"""Judging changed criteria by what runs have recorded, without a browser; what cannot be decided so is said."""
