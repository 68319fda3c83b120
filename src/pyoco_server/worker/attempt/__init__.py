"""One delivery of a job: decode, `claim`, perform, conclude, and the `disposition` that ends it.

`monitor` watches a run in flight, `quarantine` isolates runs that lose their workers, and `redelivery_limit`
replaces a message that was delivered too often.
"""
