"""`pyoco-worker`: a worker as a process."""
