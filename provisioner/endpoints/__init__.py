"""One module per lifecycle verb of an endpoint, each a tuple STEPS of small idempotent steps."""
