"""Customers' connections: reading requests, answering them, carrying them to a replica and its answer back."""
