"""Slots: child processes that execute one run at a time, so that user code can be killed and nothing else.

`pool` keeps them. `slot` is one of them in the worker, `child` is its process. `link` and `child_link` are
the two ends of the socket between them, and `messages` is what it carries. `processes` makes the process:
forked from a `zygote`, which `zygote_spawn` starts and `zygote_link` talks to, or as a fresh interpreter.
`capture` and `output` handle what the process prints.
"""
