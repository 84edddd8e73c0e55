"""Injects the declared faults (`faults:`): when they strike, how, and how they are undone."""
