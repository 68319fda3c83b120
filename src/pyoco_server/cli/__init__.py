"""The four programs, one folder each. They share `entry`, `settings`, `loop`. `docs` generates pages."""
