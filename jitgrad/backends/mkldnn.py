"""oneDNN, which jitgrad does not use."""


def is_available() -> bool:
    """False."""
    return False
