"""Authentication by API keys, JWTs and tickets, and the permissions of `callers`."""
