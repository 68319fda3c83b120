"""Runs, logs, jobs and records at rest: streams and buckets of the broker. Independent of HTTP and flows."""
