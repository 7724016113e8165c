"""Sets the routes in `abi/cuda` to what the C sources define: `local`, or `async` where the body emits a ring record."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EMITS = re.compile(r"\bemit_begin\(|\bhost_call_submit\(|_record\(|copy_async|fill_async|\blaunch\(")


def defined() -> dict[str, str]:
    routes: dict[str, str] = {}
    for path in sorted((ROOT / "src/cuttle/client").glob("*.c")):
        for match in re.finditer(
            r"^CUresult (cu[A-Z]\w+)\([^;{]*\) \{([^\n]*\}$|\n.*?^\})", path.read_text(), re.M | re.S
        ):
            routes[match[1]] = "async" if EMITS.search(match[2]) else "local"
    return routes


def main() -> int:
    routes = defined()
    for path in sorted((ROOT / "src/cuttle/abi/cuda").glob("*.py")):
        text = path.read_text()

        def changed(match: re.Match[str]) -> str:
            route = routes.get(match[2], match[3] if match[3] in {"sync", "todo"} else "todo")
            return f'{match[1]}"{route}",'

        new = re.sub(r'^(    F\("(\w+)", "\w+", \d+, "\w*", \d+, )"(\w+)",$', changed, text, flags=re.M)
        if new != text:
            path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
