"""Record the examples of the OpenAPI document: `python -m tests.api_examples.record`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.api_examples.recorded import record, write
from tests.conftest import NatsServer, free_port


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "nats"
        data.mkdir()
        server = NatsServer(data, free_port())
        server.start()
        try:
            examples = asyncio.run(record(server, Path(folder)))
        finally:
            server.stop()
    for path in write(examples):
        sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
