"""Model servers."""
