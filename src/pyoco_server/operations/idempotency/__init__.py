"""One effect for all requests with one key: `key_scope` (who used the key, and where), `request_digest` (what
was asked), `keyed_request` (reserve, remember, answer again), `apply_once` (a command of such a request),
`lookup` (the requests of a key).
"""
