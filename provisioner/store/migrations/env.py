"""Alembic's entry: runs the migrations on the connection, and in the transaction, that `store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from provisioner.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
