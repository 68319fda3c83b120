"""From what the engine reports to the log: `recorder` batches facts into commits, `uploads` stores large
results, `snapshot_writer` keeps the snapshot current, `run_log` writes what the run prints.
"""
