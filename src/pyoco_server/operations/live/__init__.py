"""What changes while a client watches: `run_changes`, `list_changes` and `worker_changes` for lists,
`run_views` for one run. Subscribers are notified and read (`notify`), so that nothing queues up for a slow
one. A view is shared by all its subscribers (`shared_views`). A request that waits for an end needs no view
(`end_waits`). `freshness` proves that a state is the latest; `log_end` asks the broker for the proof.
"""
