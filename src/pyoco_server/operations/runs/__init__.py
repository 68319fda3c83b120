"""What can be done with a run: `submit`, `cancel`, `retry`, `erase`, tag, read, list, verify, and `why` it
waits.

`apply` is the one door through which a run changes; all verbs go through it.
"""
