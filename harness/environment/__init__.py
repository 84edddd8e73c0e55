"""The systems under test: their services, channels, memory and isolation."""
