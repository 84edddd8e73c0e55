"""`harness dashboard`: a run and its past as one HTML file that needs nothing else."""
