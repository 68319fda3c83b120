"""The executions face: runs as executions of graphs, driven by commands."""
