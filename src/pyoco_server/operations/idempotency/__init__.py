"""One effect for all requests with one key: `key_scope` (whose key, used where), `request_digest` (what was
asked), `once` (reserve, execute, answer again), `apply_once` (a command in it), `lookup` (what became of
a key).
"""
