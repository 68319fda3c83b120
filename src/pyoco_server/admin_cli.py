"""`python -m pyoco_server.admin_cli …`: the name of `pyoco-server-admin` in existing scripts."""

from pyoco_server.cli.admin.main import main

if __name__ == "__main__":
    main()
