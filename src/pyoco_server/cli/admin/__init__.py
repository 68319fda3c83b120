"""`pyoco-server-admin`: for operators, at the broker."""
