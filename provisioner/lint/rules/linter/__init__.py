"""The linter itself."""
