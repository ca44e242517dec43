"""The data plane: an OpenAI-compatible process of its own that never reads a database."""
