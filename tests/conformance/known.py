"""What does not agree with PyTorch, with the reason: by operator, then by modes.

An entry that is no longer true fails the suite, as does a difference that has no entry. `KNOWN` holds for the quick
slice and the full run, `KNOWN_IN_FULL` where only the full run's samples show it.
"""

KNOWN: dict[str, dict[str, str]] = {}

KNOWN_IN_FULL: dict[str, dict[str, str]] = {}


def reason(table, name, mode):
    """Why an operator does not agree in a mode, or None."""
    for modes, why in table.get(name, {}).items():
        if mode in modes.split():
            return why
    return None
