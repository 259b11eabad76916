"""`python -m jitgrad`: look at exported programs and run them, the kernel cache, and what this installation can do."""

import sys

from jitgrad.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
