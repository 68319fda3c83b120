"""Find what is wrong in the built site: links and anchors that lead nowhere, and addresses of other hosts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads without a click.
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
# Links that name a page for machines, and load nothing.
NAMED_ONLY = {"alternate", "canonical", "next", "prev"}
LOADED_BY_STYLE = re.compile(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]?(url\()?['\"]?https?:")


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.ids.update(found[name] for name in ("id", "name") if name in found)
        relation = set(found.get("rel", "").split())
        for name in ("href", "src"):
            if name in found:
                is_loaded = (tag, name) in LOADED and not relation & NAMED_ONLY
                (self.loaded if is_loaded else self.links).append(found[name])


def problems(site: Path) -> list[str]:
    """One line for each; none if the site is whole and loads nothing from another host."""
    found = [line for path in sorted(site.rglob("*.html")) for line in _of_page(site, path)]
    styles = (
        path
        for path in sorted(site.rglob("*.css"))
        if LOADED_BY_STYLE.search(path.read_text(encoding="utf-8"))
    )
    return [*found, *(f"{path.relative_to(site)} loads from another host" for path in styles)]


def _of_page(site: Path, path: Path) -> Iterator[str]:
    name = path.relative_to(site)
    page = _parsed(path)
    for address in page.loaded:
        if urlsplit(address).netloc:
            yield f"{name} loads {address}"
    if name.name == "404.html":
        return  # it is served for any address: its links begin with the root of the server
    for address in (*page.links, *page.loaded):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = path if not parts.path else Path(os.path.normpath(path.parent / unquote(parts.path)))
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            yield f"{name} links to {address}, which is not there"
        elif not _has_part(target, unquote(parts.fragment)):
            yield f"{name} links to {address}, and the page has no such part"


def _has_part(path: Path, part: str) -> bool:
    """`__` begins the controls of the theme, which its script makes."""
    return not part or path.suffix != ".html" or part.startswith("__") or part in _parsed(path).ids


@cache
def _parsed(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))
