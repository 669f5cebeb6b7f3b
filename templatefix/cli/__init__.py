"""The command line: one file per command, and none of them computes anything."""

import gc
import sys

#: New objects after which the collector looks for garbage among them, and after how many such looks
#: it looks through older ones; Python's own defaults are 700 and 10.
_COLLECT_AFTER = 1_000_000, 100


def main() -> None:
    """The console script: runs the command that ``sys.argv`` names and exits."""
    # A check builds trees that it needs to its end: looking for garbage in them is in vain.
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        from templatefix.cli.program import templatefix

        templatefix.main()
    except KeyboardInterrupt:  # while the modules were still being imported
        sys.exit(130)
    finally:
        # Nor does anything come of looking for it now: Python would look through all there is.
        gc.freeze()
