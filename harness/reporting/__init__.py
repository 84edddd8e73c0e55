"""What is left of a run for people and other programs: artifacts, trace, Allure, console, history, metrics."""
