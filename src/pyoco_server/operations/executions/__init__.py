"""Runs that a client drives by commands: `drive` applies them, `histories` caches histories of runs, `graphs`
registers definitions. Parts of `drive`: `run_cache` (with the locks), `snapshot_coalescer`.
"""
