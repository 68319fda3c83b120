"""`pyoco-server`: `up` starts broker, worker and gateway on one machine."""
