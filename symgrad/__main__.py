"""``python -m symgrad`` is the command ``symgrad``."""

import sys

from symgrad.cli import command

if __name__ == "__main__":
    sys.exit(command())
