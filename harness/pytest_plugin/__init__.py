"""The pytest plugin: options, items, Allure, progress, summary. Entry point: `plugin`."""
