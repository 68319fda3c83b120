"""One delivery of a job: decode, `claim`, perform, conclude, and the `disposition` that ends it.

`monitor` watches a run in flight, and `quarantine` isolates runs that lose their workers.
"""
