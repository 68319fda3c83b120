"""Stored runs: the event log, its snapshots, and what belongs to one run.

`codec` (commits and snapshots as bytes), `stored_run` (a run and its position in the log), `history` (read
the log), `log` (append to it; the class `Runs`), `sent_commits` (their order), `snapshots`
(write and repair them), `results` (large results), `refusals` (recent refusals).
"""
