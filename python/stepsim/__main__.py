"""The command line of the program: ``stepsim ...`` and ``python -m stepsim ...``."""

from __future__ import annotations

import sys

from . import _native


def main() -> int:
    """Runs the command that the program was called with; its exit status."""
    return _native.main(["stepsim", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
