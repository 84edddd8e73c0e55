"""The providers of models: settings become clients with retries, limits, circuits, fallbacks, and a ledger."""
