"""What random programs have in common: a smallest one that still differs, and many of them from a command line."""

import argparse
import time


def smallest(program, smaller, differs):
    """The program, and again one of `smaller(program)`, as long as one of them `differs`."""

    def still(candidate):
        try:
            return differs(candidate)
        except Exception:  # the smaller program is none
            return False

    while (found := next(filter(still, smaller(program)), None)) is not None:
        program = found
    return program


def run_programs(check, description):
    """Check the programs of many seeds; print what differs, and how many ran in how many seconds. Whether any does."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("programs", type=int)
    parser.add_argument("--from", dest="first", type=int, default=0)
    options = parser.parse_args()
    start, wrong = time.perf_counter(), []
    for seed in range(options.first, options.first + options.programs):
        try:
            check(seed)
        except Exception as error:  # a program that cannot run at all is a fault too
            wrong.append(seed)
            print(f"{type(error).__name__}: {error}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{options.programs} programs, {seconds:.0f} s, {len(wrong)} mismatches: {wrong}")
    return bool(wrong)
