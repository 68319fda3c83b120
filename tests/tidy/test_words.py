"""The repository speaks of itself alone: not of how, where or on whose order it was made."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import ROOT, expect_none, named, tracked_text_files

EVERYWHERE = {
    # `ticket` alone is a word of ours: POST /tickets lets a browser connect.
    "a number in somebody's tracker": r"(?i)\b(?:issue|ticket|bug)\s*#\s*\d|\b(?:ticket|issue) \d",
    "work left undone": r"\bTODO\b|\bFIXME\b|\bXXX\b",
    "a path of one machine": r"(?<![\w.$}*-])/(?:work|root|home|Users)/",
    "a package index of one place": r"(?<![\w-])--(?:(?:extra-)?index-url|find-links|trusted-host)\b",
    "a registry of one place": (
        r"https?://(?!registry\.npmjs\.org[/\"']|pypi\.org[/\"'])[^\s/\"']*(?:registry|artifactory|nexus|mirror|pypi)"
    ),
}
IN_DOCUMENTS = {"a temporary path": r"(?<![\w.])/tmp/"}

# This list would find itself.
THIS_FILE = Path(__file__).resolve()


def test_no_tracked_file_speaks_of_anything_but_the_product() -> None:
    others = (path for path in tracked_text_files() if path != THIS_FILE)
    expect_none(place for path in others for place in strange_words(path))


def strange_words(path: Path) -> Iterator[str]:
    patterns = EVERYWHERE | (IN_DOCUMENTS if path.suffix in {".md", ".rst", ".txt"} else {})
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for what, pattern in patterns.items():
            if found := re.search(pattern, line):
                yield f"{named(path)}:{number} has {what}: {found[0]!r}"


def test_the_word_list_finds_what_it_is_for_and_nothing_of_ours() -> None:
    strange = [
        "see issue #12",
        "Ticket 7",
        "# TODO: later",
        "cd /work/main",
        "'/root/.cache'",
        "pip --index-url x",
    ]
    strange += ["https://pypi.example.internal/simple", "https://registry.example/npm"]
    ours = [
        "POST /tickets",
        "one ticket per path",
        "pyoco.work.<tag>",
        ".pyoco/work/x",
        "the worker registry",
    ]
    ours += ["https://registry.npmjs.org/x", "https://pypi.org/project/x", "pip-compile --no-emit-index-url"]
    assert [line for line in strange if not _is_strange(line)] == []
    assert [line for line in ours if _is_strange(line)] == []


def _is_strange(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in EVERYWHERE.values())


def test_relative_links_of_the_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    expect_none(place for path in documents for place in broken_links(path))


def broken_links(path: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(\s*<?([^)\s>]+)", text):
        relative = target.partition("#")[0]
        if relative and not re.match(r"[a-z]+:", relative) and not (path.parent / relative).exists():
            yield f"{named(path)} links to {target}, which does not exist"
