"""`/graphs` of the executions face: definitions as JSON or YAML."""
