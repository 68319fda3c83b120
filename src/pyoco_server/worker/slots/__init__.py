"""Slots: processes that execute runs, so that user code can be killed and nothing else.

`pool` keeps them. `slot` is one of them in the worker, `slot_runs` and `slot_run` are the runs in it, and
`endings` is what is committed for a run that has left. `child` is its process, in which `run_loop` executes
runs in turn; `control_page` is how the worker takes them back. `link` and `child_link` are the two ends of
the socket between them, and `messages` is what it carries. `processes` makes the process: forked from a
`zygote`, which `zygote_spawn` starts and `zygote_link` talks to, or as a fresh interpreter. `capture` and
`output` handle what the process prints.
"""
