"""The command `cuttle`. `cuttle run` leaves before anything heavy is imported: its cost is added to every program."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code. Of `cuttle run` only failures of Cuttle itself return."""
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments and arguments[0] == "run":
        from cuttle.cli import launch

        return launch.main(arguments[1:])
    try:
        from cuttle.cli import command_line

        return command_line.main(arguments)
    except KeyboardInterrupt:  # while modules are imported: click has the others
        return 130


if __name__ == "__main__":
    sys.exit(main())
