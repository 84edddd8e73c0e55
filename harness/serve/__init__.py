"""The server of a project, `harness serve`: its address, its tokens, and what it refuses before any page answers."""
