"""The values that all rooms above share: plan, record, report, events, warnings, settings, and the engine's ports."""
