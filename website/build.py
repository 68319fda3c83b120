"""Build the site: `python -m website.build [FOLDER]`, by default into website/build.

MkDocs gets a folder with all pages and pictures, and stops at the first warning, such as a link that leads
nowhere. `check` then reads the HTML.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from website.check import problems
from website.http_reference import http_pages
from website.pages import DOCS, ROOT, pages

HERE = Path(__file__).parent
BUILT = HERE / "build"
ALTERNATE = re.compile(r"<link rel=\"?alternate\"? [^>]*hreflang[^>]*>")
SAID = ("WARNING", "ERROR", "CRITICAL")


def stage(folder: Path) -> None:
    """Write everything that MkDocs reads into the folder."""
    for name, text in (*pages(), *http_pages()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "img", folder / "img")
    shutil.copy(DOCS / "openapi.json", folder)
    shutil.copy(HERE / "extra.css", folder)


def build(target: Path) -> None:
    """SystemExit with what MkDocs says, if it has a warning. (With --quiet it would not count them.)"""
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
        command += ["--config-file", str(HERE / "mkdocs.yml"), "--site-dir", str(target.resolve())]
        # The notice of Material about its own future is no warning about these pages.
        environment = os.environ | {"SITE_DOCS": folder, "NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.splitlines()
        raise SystemExit("\n".join(line for line in lines if line.startswith(SAID)) or done.stderr)
    for page in target.rglob("*.html"):
        page.write_text(
            _finished(page.read_text(encoding="utf-8"), page.relative_to(target)), encoding="utf-8"
        )


def _finished(text: str, page: Path) -> str:
    """Links between languages: relative on every page, and not twice.

    MkDocs gets no address of the site, so the two homes link to `/`, and the script of the theme asks for a
    sitemap next to each `link` that names the other language.
    """
    text = ALTERNATE.sub("", text)
    if page.as_posix() not in {"index.html", "ja/index.html"}:
        return text
    root = "../" * (len(page.parts) - 1) or "./"
    return text.replace('href="/ja/"', f'href="{root}ja/"').replace('href="/"', f'href="{root}"')


def main() -> int:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILT
    build(target)
    found = problems(target)
    sys.stderr.writelines(f"{problem}\n" for problem in found)
    if not found:
        sys.stdout.write(f"Built {target}. Read it with: python3 -m http.server --directory {target}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
