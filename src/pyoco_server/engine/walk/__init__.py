"""The walk through a flow: `plan` and `program` (the order of tasks), `ready` and `scheduler` (which may
start now), `in_flight`, `waits` and `timers` (tasks that were started).
"""
