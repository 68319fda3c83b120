"""The work queue: `jobs` publishes them, `job_puller` takes them (`open_pulls`: what it has requested),
`dead_letters` keeps what could not be executed.
"""
