"""The work queue: `jobs` publishes them, `job_puller` takes them, `dead_letters` keeps what could not be
executed.
"""
