"""The table of totals that a run of this folder ends with: operators by mode."""

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    """How many operators agree with PyTorch, of how many, by mode."""
    totals = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            found = dict(getattr(report, "user_properties", ()))
            if getattr(report, "when", "") == "call" and "outcome" in found:
                kind = "full" if "test_full" in report.nodeid else "quick"
                totals.setdefault((kind, found["mode"]), Counter())[found["outcome"]] += 1
    if not totals:
        return
    terminalreporter.section("operators that agree with PyTorch")
    for (kind, mode), counts in sorted(totals.items()):
        total = sum(counts.values())
        terminalreporter.write_line(
            f"{kind:6}{mode:10}{counts['agrees']:4} of {total:4}   differ {counts['differs']:3}   "
            f"missing {counts['missing']:3}"
        )
