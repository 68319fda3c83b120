"""`pyoco-client mcp`: the runs of a gateway as tools of the Model Context Protocol.

`command` is the command, `server` registers the tools with their annotations, `run_tools` executes them with
a client of the gateway, and `shapes` has what they answer.
"""
