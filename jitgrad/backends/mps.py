"""Apple's Metal, which jitgrad does not use."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False
