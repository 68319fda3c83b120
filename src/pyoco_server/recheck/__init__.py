"""Rechecks: strategies, requests, batches and results as values, their validation, and the judging.

Pure: no clock, no broker, no HTTP. `request_body` is parsed first, `records` are stored, `judging` applies
the `thresholds`. `operations.rechecks` acts on these values.
"""
