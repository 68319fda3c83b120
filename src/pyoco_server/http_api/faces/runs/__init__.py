"""The runs face: the native API, compatible with the upstream server."""
