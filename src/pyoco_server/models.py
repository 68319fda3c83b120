"""The name under which existing code imports the snapshot's compaction."""

from pyoco_server.lifecycle.snapshot import compact_run_snapshot

__all__ = ["compact_run_snapshot"]
