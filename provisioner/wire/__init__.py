"""REST request and answer models, shared by api and client. Names are camelCase on the wire; a change here is a change
of the public contract."""
