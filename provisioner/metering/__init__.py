"""Usage records to rollups. Empty until accounting is built."""
