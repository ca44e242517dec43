"""The routes of the REST API: one module per noun, each with a `router`."""
