"""Task files: their models, loading with file:line:column problems, checks, interpolation."""
