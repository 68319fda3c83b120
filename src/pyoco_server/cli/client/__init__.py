"""`pyoco-client`: one file per group of commands; `main` is the program."""
