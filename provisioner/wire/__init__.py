"""REST request and answer models, shared by api and client."""
