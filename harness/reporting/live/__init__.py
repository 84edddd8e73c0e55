"""The live view of any run: it reads the run's event file and the history, and the run does not know of it."""
