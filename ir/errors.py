"""Exceptions raised to users, all deriving from the types PyTorch scripts already catch.

An error names the op, the rule broken, the actual operand types and the user's line; `attach_location`
adds the line once it is known, so that rules need not know where they are called from.
"""

from __future__ import annotations

from collections.abc import Sequence


class JitgradError(Exception):
    """Base of every error jitgrad raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.location: str | None = None

    def attach_location(self, location: str | None) -> None:
        """Record the user's line (`file:line in function`), unless one is known already."""
        if self.location is None and location:
            self.location = location

    def __str__(self) -> str:
        return self.message if self.location is None else f"{self.message}\n  at {self.location}"


class ShapeError(JitgradError, RuntimeError):
    """Shapes that do not fit an op's rule."""


class DTypeError(JitgradError, RuntimeError):
    """Element types that an op does not take."""


class DeviceError(JitgradError, RuntimeError):
    """Operands on different devices, or a device that is not there."""


class CudaError(JitgradError, RuntimeError):
    """A call of the CUDA driver failed."""


class OutOfMemoryError(JitgradError, RuntimeError):
    """A device has no memory left for a tensor."""


class DivisionByZeroError(JitgradError, RuntimeError, ZeroDivisionError):
    """An integer divided by zero."""


class OperationError(JitgradError, RuntimeError):
    """An argument with which an operation can't be carried out."""


class UnsupportedError(JitgradError, NotImplementedError):
    """What an operation does not do: for a dtype, a number of axes or a mode."""


class PreconditionError(JitgradError, AssertionError):
    """An argument that does not fit, which PyTorch refuses by an assertion."""


class LinAlgError(JitgradError, RuntimeError):
    """A matrix for which what was asked does not exist: a singular one to invert, one that is not positive."""


class AutogradError(JitgradError, RuntimeError):
    """A gradient that was asked for and cannot be given."""


class CompileError(JitgradError, RuntimeError):
    """A function that `compile(fullgraph=True)` cannot capture."""


class CheckError(CompileError):
    """A compiled call that did something else than the eager one: see `compile(check=True)`."""


class DimError(JitgradError, IndexError):
    """A dimension or an index out of range."""


class IndexRangeError(DimError, RuntimeError):
    """An index tensor's value out of range: PyTorch's functions raise one or the other of the two types."""


class ArgumentError(JitgradError, ValueError):
    """An argument whose value is not allowed."""


class ArgumentTypeError(JitgradError, TypeError):
    """An argument of a type that is not allowed."""


class InvalidGraphError(JitgradError, ValueError):
    """A graph that breaks a rule of the IR: from a broken file, or from a broken pass."""


class ParseError(JitgradError, ValueError):
    """IR text that cannot be read; the message names line and column."""


class InternalError(JitgradError, RuntimeError):
    """A bug in jitgrad itself."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}\n  This is a bug in jitgrad: please report it with the program that shows it.")


def operand_lines(types: Sequence[object]) -> str:
    """The indented line of operand types that closes a message, e.g. `  lhs f32[32,128]   rhs f32[64,10]`."""
    names = ("lhs", "rhs") if len(types) == 2 else tuple(f"operand {i}" for i in range(len(types)))
    if len(types) == 1:
        names = ("operand",)
    return "\n  " + "   ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
