"""`python -m pyoco_server.admin_cli …`: the name under which scripts know `pyoco-server-admin`."""

from pyoco_server.cli.admin.main import main

if __name__ == "__main__":
    main()
