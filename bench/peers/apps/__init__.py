"""The same tasks in the idiom of each system. Workers import these files; ours are in `bench.flows`."""
