"""Runs that a client drives by commands: `drive` takes a command, `histories` keeps what is read whole,
`graphs` registers definitions.
"""
