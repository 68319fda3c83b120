"""The pages of the site: those of docs/, those from elsewhere in the repository, and those made from data.

Links are written for readers of the repository. Here they are pointed at pages of the site; a link to a file
that is no page of the site becomes text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pymdownx.slugs import slugify

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
JAPANESE = ".ja.md"
_WIDE = r"[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]"
CODE_OR_LINE_END = re.compile(rf"^ *```.*?^ *```|(?<={_WIDE})\n *(?={_WIDE})", re.MULTILINE | re.DOTALL)
HEADING_OR_CODE = re.compile(r"^ *```.*?^ *```|^(#{1,6}) +(.+?) *$", re.MULTILINE | re.DOTALL)

# Code is passed over; what is left may have links. The words of a link may have a picture or code in them.
CODE_OR_LINK = re.compile(
    r"^ *```.*?^ *```|`[^`\n]+`|(!?)\[((?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\(\s*<?([^)\s>]+)>?\)",
    re.MULTILINE | re.DOTALL,
)


def pages() -> Iterator[tuple[str, str]]:
    """The address of each page below the folder of the site, and its text."""
    for path in sorted(DOCS.rglob("*.md")):
        text = linked(path)
        if path.name.endswith(JAPANESE):
            text = with_english_anchors(
                without_line_ends(text), path.with_name(path.name.replace(JAPANESE, ".md"))
            )
        yield site_path(path.relative_to(ROOT).as_posix()), text
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


def without_line_ends(text: str) -> str:
    """Japanese has no spaces between words: a browser would show each end of a line as one."""
    return CODE_OR_LINE_END.sub(lambda match: match[0] if "`" in match[0] else "", text)


def with_english_anchors(text: str, english: Path) -> str:
    """Headings that also answer to the anchors of the English page.

    Pages without a translation are on the site in Japanese too, and link parts by their English headings.
    Both pages have the same headings in the same order; a test compares them.
    """
    to_anchor = slugify(case="lower")
    headings = [
        match[2] for match in HEADING_OR_CODE.finditer(english.read_text(encoding="utf-8")) if match[1]
    ]
    anchors = (to_anchor(re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading), "-") for heading in headings)

    def anchored(match: re.Match[str]) -> str:
        return f'{match[0]} <a id="{next(anchors)}"></a>' if match[1] else match[0]

    return HEADING_OR_CODE.sub(anchored, text)


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
