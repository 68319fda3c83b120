"""Lists in SQLite and memory, filled from the streams by ordered consumers. Each of them can be rebuilt.

`runs` follows the event log. `run_writer` folds it into `run_table` (one row a run), with `tag_table`,
`waits`, `erased_runs` and `run_tally` beside it; `run_pages`, `sorted_runs` and `housekeeping_queries` read
from it.
`recent_runs` keeps the commits of young runs, for requests that wait. `rechecks` does the same as `runs` for
the recheck face. `key_table` has the API keys in memory.
"""
