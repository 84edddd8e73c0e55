"""Allure: the content of each test's result, and the report that is built from the results."""
