"""One delivery of a job: decode, `claim`, perform, conclude, and the `disposition` that ends it.

`monitor` watches a run while it is executed, `quarantine` keeps runs that lose their workers apart,
`redelivery_limit` replaces a message that was delivered too often, `permit` limits how many runs are
executed at once.
"""
