"""One task: its context, its arguments and result, one attempt at it in a thread, and its failure as text."""
