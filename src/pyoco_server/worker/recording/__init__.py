"""From the engine's callbacks to the log.

`listener` turns callbacks into commands in the process that executes the run, `recorder` receives them in the
worker, `facts` joins them with their values, `batcher` commits them, `uploads` stores large results,
`snapshot_writer` keeps the snapshot current, and `run_log` writes what the run prints. `held_notices` has the
notices of a run that prints nothing. `checkpoints` and `earlier_claims` have what earlier claims recorded.
"""
