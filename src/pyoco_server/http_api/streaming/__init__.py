"""Server-sent events: one stream per client, fed by notifications, of one source or of several topics."""
