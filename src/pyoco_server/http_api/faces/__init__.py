"""One folder a dialect: `routes.py` (HTTP in and out) and `wire.py` (their words and ours)."""
