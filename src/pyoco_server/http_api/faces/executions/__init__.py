"""The executions face: runs as executions of graphs, driven by commands.

In: `params`, `requests`, `commands`, `creation`. Routes: `command_routes`, `reading_routes`, `stream_routes`,
`graphs/`. Out: `wire`, `state`, `event_mapping`, `event_history`, `why_texts`, `rejected`, `errors`.
"""
