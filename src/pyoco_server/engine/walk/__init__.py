"""The way through a flow: `plan` and `program` (what comes after what), `ready` and `scheduler` (what may
start now), `in_flight`, `waits` and `timers` (what was started).
"""
