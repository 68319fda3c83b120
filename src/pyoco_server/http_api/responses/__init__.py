"""Writing responses, for every face: errors by table, JSON, byte ranges, content negotiation, logs."""
