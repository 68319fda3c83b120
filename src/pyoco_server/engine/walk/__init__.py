"""The walk through a flow: `plan` and `program_index` (the flow), `graph` and `program` (the order of tasks),
`scheduler` and `grouping` (what starts now) and `in_flight` (the tasks that were started).
"""
