"""The recheck face: `/pdca` and `/gui`, in the words of their own document."""
