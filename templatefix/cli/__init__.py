"""The command line: one file per command, and none of them computes anything."""

import sys


def main() -> None:
    """The console script: runs the command that ``sys.argv`` names and exits."""
    try:
        from templatefix.cli.program import templatefix

        templatefix.main()
    except KeyboardInterrupt:  # while the modules were still being imported
        sys.exit(130)
