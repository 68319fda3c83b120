"""What the commands of `pyoco-client` do, one file per noun. `grammar` gives them their names."""
