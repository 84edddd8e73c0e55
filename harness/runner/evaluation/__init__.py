"""Evaluations: agents tried on the same tasks, in pairs, and the statistics of the results."""
