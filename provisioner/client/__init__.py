"""Typed client of the REST API, and a small one of the endpoints themselves. Imports nothing until it is used."""
