"""The campaign that judges "never twice": random pages, failures, answers and ways back, and a server that counts."""
