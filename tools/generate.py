"""Writes every generated file of the repository from the rows in `abi/`: `python tools/generate.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools import (  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
    generate_docs,
    generate_driver,
    generate_rdna_docs,
    generate_stack_docs,
    generate_support_docs,
    generate_wire,
)


def generated_files() -> dict[str, str]:
    """Path below the repository → text."""
    return {
        "src/cuttle/client/generated/cuttle_wire.h": generate_wire.wire_header(),
        "src/cuttle/abi/wire_layout.py": generate_wire.wire_layout(),
        **generate_driver.files(),
        **generate_docs.documents(),
        **generate_stack_docs.documents(),
        **generate_support_docs.documents(),
        "docs/reference/rdna-instructions.md": generate_rdna_docs.instructions_page(),
    }


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in generated_files().items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(("stale: " if check else "wrote ") + name)
    wrong = generate_driver.check_routes()
    for line in wrong:
        print(line)
    return 1 if wrong or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
