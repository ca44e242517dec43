"""The REST API: FastAPI, problem details, authentication."""
