"""Links of the documentation lead somewhere: files, headings, and pages that source files name. `python tools/check_links.py`.

Headings become anchors as on GitHub: lower case, spaces to hyphens, and everything else but letters, digits, `-` and `_` dropped; the second
heading of a name gets `-1`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("docs", "src", "tests", "tools", "bench")
SOURCES = {".py", ".c", ".h", ".cu", ".sh", ".toml"}
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)")
_HEADING = re.compile(r"#{1,6} +(.*?)(?: +#+)?$")
_NAMED_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def anchor(heading: str) -> str:
    """The anchor of a heading. Of a link in it the text counts, and of code what stands in the code."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def prose(text: str) -> Iterator[str]:
    """The lines of Markdown that are no code."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield line


@cache
def anchors(page: Path) -> frozenset[str]:
    seen: Counter[str] = Counter()
    found = set()
    for line in prose(page.read_text(encoding="utf-8")):
        if heading := _HEADING.match(line):
            name = anchor(heading[1])
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
    return frozenset(found)


def pages(root: Path = ROOT) -> list[Path]:
    return sorted([*root.glob("*.md"), *(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))])


def dead_links(page: Path) -> Iterator[str]:
    """Targets in a page that are not there."""
    for line in prose(page.read_text(encoding="utf-8")):
        for link in _LINK.finditer(_CODE.sub("", line)):
            target = link[1] or link[2]
            if re.match(r"[a-z]+:", target):
                continue
            path, _, name = unquote(target).partition("#")
            file = page.parent / path if path else page
            if not file.exists() or (name and file.suffix == ".md" and name not in anchors(file)):
                yield target


def dead_names(file: Path, root: Path = ROOT) -> Iterator[str]:
    """Pages that a source file names, as in hints, and that do not exist."""
    for name in sorted(set(_NAMED_PAGE.findall(file.read_text(encoding="utf-8", errors="replace")))):
        if not (root / name).exists():
            yield name


def complaints(root: Path = ROOT) -> list[str]:
    found = [f"{page.relative_to(root)}: {target}" for page in pages(root) for target in dead_links(page)]
    sources = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SOURCES]
    return found + [f"{file.relative_to(root)}: {name}" for file in sources for name in dead_names(file, root)]


def main() -> int:
    found = complaints()
    for text in found:
        print(f"{text} leads nowhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
