"""Reading requests, for every face: bodies, idempotency keys, log queries, and whether the client is still
connected.
"""
