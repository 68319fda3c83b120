"""The client of the broker: JetStream over one nats-py connection. Knows subjects and bytes, nothing about
runs.

From the wire up: `transport` and `parser` (bytes), `client` (one connection that reconnects), `requests`
(replies by a shared inbox), `api` (publish at an expected sequence, read, inform), `confirmed_reads`
(what a majority says), `kv` and `objects` (buckets), `ordered_consumer` (every message of a stream in
order), `stream_position` (where such a reader stands), `broker_clock`. `errors` draws the tree of what
can go wrong.
"""
