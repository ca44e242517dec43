"""One module per lifecycle verb of a tenant, each a tuple STEPS of small idempotent steps."""
