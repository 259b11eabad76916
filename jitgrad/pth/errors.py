"""What is raised for a file that is damaged, or asks for what is refused."""

from __future__ import annotations

import pickle

from jitgrad.ir.errors import ArgumentError


class PthError(ArgumentError, RuntimeError, pickle.UnpicklingError):
    """A file of PyTorch's format that can't be read: damaged, or with more in it than data.

    It is a `RuntimeError` and an `UnpicklingError`, which `torch.load` raises for the one and the other.
    """
