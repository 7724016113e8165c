"""`python -m cuttle.runtime SOCKET CONTROL STATUS ARENA`, or `... connect`: the device process (docs/design/boundary.md)."""

import _signal  # type: ignore[import-not-found]  # `signal` would import enum
import os
import sys

if __name__ == "__main__":
    if sys.platform == "win32":
        from cuttle.runtime.windows import main as refuse

        sys.exit(refuse())
    from cuttle.runtime.process import main

    # Ctrl-C is for the program; when it ends, so do we.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    code = main(sys.argv)
    # Nothing is left to tidy up, and a program may be waiting for us to be gone.
    os._exit(code)
