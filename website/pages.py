"""The pages of the site: those of docs/, those from elsewhere in the repository, and those made from data.

Links are written for readers of the repository. Here they are pointed at pages of the site; a link to a file
that is no page of the site becomes text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))

# Where files outside docs/ are on the site.
ELSEWHERE: Mapping[str, str] = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "examples/README.md": "examples/README.md",
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in EXAMPLES},
}
DECISIONS = "decisions/README.md"

# Code is passed over; what is left may have links. The words of a link may have a picture or code in them.
CODE_OR_LINK = re.compile(
    r"^ *```.*?^ *```|`[^`\n]+`|(!?)\[((?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\(\s*<?([^)\s>]+)>?\)",
    re.MULTILINE | re.DOTALL,
)


def pages() -> Iterator[tuple[str, str]]:
    """The address of each page below the folder of the site, and its text."""
    for path in sorted(DOCS.rglob("*.md")):
        yield site_path(path.relative_to(ROOT).as_posix()), linked(path)
    for source, target in ELSEWHERE.items():
        yield target, linked(ROOT / source) + _files_of(source)
    yield DECISIONS, decisions_page()


def site_path(source: str) -> str:
    """Where the file of the repository is on the site; empty if it is not there."""
    if source in ELSEWHERE:
        return ELSEWHERE[source]
    if source == "docs/decisions":
        return DECISIONS
    return source.removeprefix("docs/") if source.startswith("docs/") else ""


def linked(path: Path) -> str:
    """The text of a file, with links for the site."""
    source = path.relative_to(ROOT).as_posix()
    here = Path(site_path(source)).parent

    def on_site(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if target is None:
            return match[0]
        file, hash_sign, part = target.partition("#")
        if not file or re.match(r"[a-z]+:", file):
            return match[0]
        words = CODE_OR_LINK.sub(on_site, words)
        found = site_path(os.path.normpath(Path(source).parent / file))
        if not found:
            return words
        return f"{picture}[{words}]({os.path.relpath(found, here)}{hash_sign}{part})"

    return CODE_OR_LINK.sub(on_site, path.read_text(encoding="utf-8"))


def decisions_page() -> str:
    rows = [f"- [{_title(path)}]({path.name})" for path in sorted((DOCS / "decisions").glob("*.md"))]
    return "\n".join(
        ["# Decisions", "", "Why things are as they are, one page for each decision.", "", *rows, ""]
    )


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _files_of(source: str) -> str:
    """The programs of an example, below its page."""
    folder = (ROOT / source).parent
    if folder.parent.name != "examples":
        return ""
    files = sorted(folder.glob("*.py"))
    return "".join(
        f"\n## {file.name}\n\n```python\n{file.read_text(encoding='utf-8')}```\n" for file in files
    )
