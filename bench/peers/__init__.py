"""The same work on pyoco-server and on the systems that people would use instead, on one machine.

`compare` is the command: it installs each system (`install`) and runs the rounds in turn. `drive` runs one
round of one system, in that system's own environment. `workloads` has what is measured, `system` what every
system must be able to do, `systems/` one file for each, `apps/` the same tasks in the idiom of each,
`services` what several of them need. `figures` are the rows of the table. Everything except `compare` and
`install` uses the standard library and the client library of the system only.
"""
