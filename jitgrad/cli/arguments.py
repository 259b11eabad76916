"""The command line's grammar."""

from __future__ import annotations

import argparse
from typing import Any

import jitgrad

_EXIT_CODES = "exit codes: 0 all is well, 1 a check failed or the file is broken, 2 the command line is not right"


def make_parser() -> argparse.ArgumentParser:
    """The parser. What it gives has `module` and `command`: where in this package the command's function is."""
    parser = argparse.ArgumentParser(
        prog="python -m jitgrad",
        description="Look at exported programs, run them, and see what this installation can do.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"jitgrad {jitgrad.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _inspect(commands)
    _run(commands)
    _check(commands)
    _dump(commands)
    _cache(commands)
    _doctor(commands)
    return parser


def _add(commands: Any, name: str, module: str, command: str, help: str, description: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(module=module, command=command)
    made.add_argument("--json", action="store_true", help="print JSON, for programs to read")
    return made


def _sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a dynamic dimension; may be repeated"
    )


def _inspect(commands: Any) -> None:
    p = _add(
        commands, "inspect", "program", "inspect",
        "signature, ops, sizes, flops",
        "Show what an exported program takes and gives, its state, and what a call costs.\n\n"
        "    python -m jitgrad inspect model.jg --size batch=64",
    )  # fmt: skip
    p.add_argument("file", metavar="FILE", help="a program made by jitgrad.export(...).save(FILE)")
    p.add_argument("--text", action="store_true", help="print the program's text as well")
    _sizes(p)


def _run(commands: Any) -> None:
    p = _add(
        commands, "run", "program", "run",
        "run on arrays",
        "Run an exported program on arrays from .npy files, in the order of its signature or by name:\n\n"
        "    python -m jitgrad run model.jg --input x.npy --input mask=m.npy --output y.npy\n\n"
        "Several results are written to y-0.npy, y-1.npy, ...; a folder gets one file per result.",
    )  # fmt: skip
    p.add_argument("file", metavar="FILE", help="an exported program")
    p.add_argument(
        "--input", action="append", nargs="+", default=[], metavar="[NAME=]X.NPY", help="arrays; NumPy's .npy files"
    )
    p.add_argument("--output", metavar="Y.NPY", help="where results go; without it they are printed in short")
    p.add_argument("--set", action="append", default=[], metavar="NAME=X", help="a number of the program, such as lr")
    p.add_argument("--device", default="cpu", metavar="NAME", help="where to run: cpu (the default), cuda, cuda:1")
    p.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times and report the median time")
    p.add_argument("--save", metavar="FILE", help="save the program with the state it has afterwards")


def _check(commands: Any) -> None:
    p = _add(
        commands, "check", "program", "check",
        "is the file whole and right?",
        "Read an exported program, check every field of it, and verify and compile its graph.",
    )  # fmt: skip
    p.add_argument("file", metavar="FILE", help="an exported program")


def _dump(commands: Any) -> None:
    p = _add(
        commands, "dump", "program", "dump",
        "every stage, from the graph to machine code, as text and as a page",
        "Write what compiling an exported program makes of it: text for each stage, and index.html, a page that\n"
        "needs no network.\n\n"
        "    python -m jitgrad dump model.jg dumps --size batch=64 --measure",
    )  # fmt: skip
    p.add_argument("file", metavar="FILE", help="an exported program")
    p.add_argument("folder", metavar="DIR", help="a folder; each dump is a new sub-folder of it")
    p.add_argument("--measure", action="store_true", help="run it, and show the time of each step")
    _sizes(p)


def _cache(commands: Any) -> None:
    parser = commands.add_parser(
        "cache", help="compiled kernels on disk", description="The folder of compiled kernels.", epilog=_EXIT_CODES
    )
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(inner, "info", "cache", "info", "where it is and how large", "Where compiled kernels are kept, and how many.")
    _add(
        inner, "clear", "cache", "clear", "remove all entries", "Remove all entries; what is needed is compiled again."
    )


def _doctor(commands: Any) -> None:
    p = _add(
        commands, "doctor", "doctor", "doctor",
        "versions, CPU, threads, BLAS, GPU; what is missing and how to get it",
        "Say what jitgrad finds on this machine, compile and run a kernel, and name what is missing.\n"
        "Optional parts that are missing are no failure.",
    )  # fmt: skip
    p.add_argument("--quick", action="store_true", help="leave out compiling and running a kernel")
