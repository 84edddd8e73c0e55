"""The reports of a run for people and programs: artifacts, trace, Allure, console, history, metrics."""
