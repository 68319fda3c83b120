"""Child processes: none outlives its parent."""
