"""Slots: child processes that execute one run at a time, so that user code can be killed and nothing else."""
