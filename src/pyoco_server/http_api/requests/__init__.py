"""Reading requests, for every face: bodies, idempotency keys, log queries, whether the gateway is ready, and
whether the client is still connected.
"""
