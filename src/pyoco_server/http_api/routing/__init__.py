"""Routes, declared once. `Operation` makes the route, its OpenAPI entry and its entry in the hot table.

`kinds`: what a text may be. `params`: a parameter reads itself and describes itself. `problems`: the one form
of a refused parameter. `operation`: one method at one path. `face`: the operations of a dialect. `document`:
the OpenAPI document. `examples`: its requests and answers, recorded from a gateway. `path_table`: a router
for requests that do not go through Starlette's. `schemas`: parts of JSON Schema.
"""
