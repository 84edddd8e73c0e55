"""Makes a run: the one place where concrete classes are chosen, the loop with a face for plain functions, parallel tasks."""
