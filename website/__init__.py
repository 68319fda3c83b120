"""The documentation site: `make site` builds it from docs/, in English and Japanese.

`pages` says where each page of the site comes from, `http_reference` writes the pages about the HTTP API,
`build` puts them into one folder and runs MkDocs on it, and `check` looks for dead links in what it built.
"""
