"""Who a caller is: API keys, JWTs, tickets; and what `callers` may do."""
