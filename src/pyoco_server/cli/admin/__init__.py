"""`pyoco-server-admin`: commands for operators, directly at the broker."""
