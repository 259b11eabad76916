"""The command line, `python -m jitgrad`.

A command is a function of its module in this package: it takes the parsed arguments and gives a `Report`, which is
printed as text, or as JSON with `--json`. Exit codes: 0 all is well, 1 a check failed or the file is broken, 2 the
command line, or a file it names, is not right.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from jitgrad.ir.errors import JitgradError

from .arguments import make_parser
from .report import Report, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Faults of the user's are one line on stderr, with no traceback.

    >>> main(["cache", "info", "--no-such-option"])
    2
    """
    try:
        args = make_parser().parse_args(arguments)
    except SystemExit as stop:  # argparse has printed its usage or the help
        return 0 if not stop.code else 2
    report = _run(args.module, args.command, args)
    try:
        print(
            report.to_json() if args.json else report.text,
            file=sys.stdout if report.goes_out(args.json) else sys.stderr,
        )
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        _drop_output()
    except OSError as error:  # a full disk
        _drop_output()
        print(f"jitgrad: error: the answer can't be written: {error.strerror}", file=sys.stderr)
        return 2
    return report.exit_code


def _drop_output() -> None:
    """Send what is still buffered nowhere, lest Python fail at it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(module: str, command: str, args: object) -> Report:
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), command)(args)  # type: ignore[no-any-return]
    except UsageError as error:
        return Report.of_error(str(error), 2)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return Report.of_error(what, 2)
    except JitgradError as error:
        lines = [line for line in str(error).split("\n") if not line.lstrip().startswith("at ")]  # of this program
        return Report.of_error("\n".join(lines), 1)
