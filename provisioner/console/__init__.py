"""Operator web pages on the services of the API. Empty until they are built."""
