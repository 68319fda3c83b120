"""The only place that speaks NATS: streams, buckets, bytes. Knows runs as values, no HTTP and no flows."""
