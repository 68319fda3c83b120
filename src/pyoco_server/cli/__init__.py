"""The four programs, a folder each; they share `entry`, `settings`, `loop`. `docs` writes generated pages."""
