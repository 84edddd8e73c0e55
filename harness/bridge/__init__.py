"""The bridge: agents that run elsewhere take tasks over a connection that may be lost, and nothing is done twice."""
