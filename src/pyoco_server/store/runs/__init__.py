"""Runs at rest: the event log, its snapshots and what belongs to one run.

`codec` (values and bytes), `commits` and `stored_run` (a run and its place in the log), `history` (read
the log), `log` (append to it; the class `Runs`), `snapshot_store` (write and repair snapshots), `snapshots`
(their bucket), `run_cache` (runs read whole), `results` (large results), `refusals` (recent refusals).
"""
