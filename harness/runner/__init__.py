"""Makes a run: where concrete classes are chosen, the loop with a face for plain functions, parallel tasks."""
