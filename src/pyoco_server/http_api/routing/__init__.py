"""Routes, declared once. `Operation` makes the route, its OpenAPI entry and its entry in the hot table.

`kinds`: the values of a parameter. `params`: a parameter reads and describes itself. `problems`: the error of
a refused parameter. `operation`: one method at one path. `face`: the operations of a dialect. `document`: the
OpenAPI document. `examples`: its examples, recorded from a gateway. `path_table`: the router of hot routes.
`schemas`: parts of JSON Schema.
"""
