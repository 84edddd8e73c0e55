"""What all rooms above agree on: plan, record, report, events, warnings, settings, and the ports of the engine."""
