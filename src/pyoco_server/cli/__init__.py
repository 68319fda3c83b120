"""The four programs, a folder each; `entry`, `settings` and `loop` are shared. `docs` writes generated pages."""
