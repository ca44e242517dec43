"""SQL: SQLite in the embedded default, PostgreSQL in production. The only place where SQL stands."""
