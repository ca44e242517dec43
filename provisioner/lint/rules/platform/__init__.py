"""The Platform."""
