"""Files, YAML and schemas."""
