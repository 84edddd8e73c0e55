"""Makes a run: chooses the concrete classes, runs the loop behind plain functions, and several tasks at once."""
