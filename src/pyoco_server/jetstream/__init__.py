"""The client of the broker: JetStream over one nats-py connection. It handles subjects and bytes, not runs.

From the wire up: `transport` and `parser` (bytes), `client` (one connection that reconnects), `requests`
(replies by a shared inbox), `api` (publish at an expected sequence, read, inform), `descriptions` (what the
broker says about streams), `confirmed_reads` (proof by a majority), `kv` and `objects` (buckets),
`ordered_consumer` (every message of a stream in order), `stream_position` (how far such a reader has read),
`broker_clock`. `errors` has the tree of errors.
"""
