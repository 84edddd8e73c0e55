"""Tool servers (MCP) under supervision: connections, states, discovery, and calls that never do a write twice."""
