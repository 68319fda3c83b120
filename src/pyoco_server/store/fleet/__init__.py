"""Workers at rest: their `registry` entries, their `leases`, and the `wheels` they install."""
