"""The recheck face: `/pdca` and `/gui`, in the terms of their own document."""
