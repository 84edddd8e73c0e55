"""Allure: what each test's result says, and the report that is built of the results."""
