"""`/jobs`: runs as jobs, their tags, and their logs as pages, files, streams and sockets."""
