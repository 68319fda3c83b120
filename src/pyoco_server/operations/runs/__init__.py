"""The operations on runs: submit, cancel, retry, erase, tag, read, list, verify, and explain (`why`).

All changes of a run go through `apply`.
"""
