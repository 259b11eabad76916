"""Complex numbers: parts, conjugates, angles, and views as and of pairs of floats."""

from __future__ import annotations

import math
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.errors import DTypeError, ShapeError
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.comparison import IsNan, Lt
from jitgrad.ir.ops.complex import Conj, Imag, MakeComplex, Real, ViewAsComplex, ViewAsReal
from jitgrad.ir.ops.select import Where
from jitgrad.ir.ops.trigonometry import Atan2, Cos, Sin

from ..aliasing import view
from ..dispatch import apply, infer
from ..errors import located
from ..promotion import float_dtype
from ..tensor import Tensor
from .pointwise import broadcast, check_tensor, convert, filled, pointwise
from .registry import public


@public()
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, elementwise; a real tensor itself.

    >>> import jitgrad as jg
    >>> jg.conj(jg.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    x = check_tensor(input, "conj")
    return apply(Conj(), x) if x.dtype.is_complex else x


@public(inplace=True, out=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, elementwise; a real tensor itself."""
    return conj(input)


@public(method=False)
def real(input: Tensor) -> Tensor:
    """The real part, a view; a real tensor itself.

    >>> import jitgrad as jg
    >>> jg.real(jg.tensor([1 + 2j]))
    tensor([1.])
    """
    x = check_tensor(input, "real")
    return view(Real(), x) if x.dtype.is_complex else x


@public(method=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, a view.

    >>> import jitgrad as jg
    >>> jg.imag(jg.tensor([1 + 2j]))
    tensor([2.])
    """
    x = check_tensor(input, "imag")
    if not x.dtype.is_complex:
        raise located(DTypeError("imag is not implemented for tensors with non-complex dtypes."))
    return view(Imag(), x)


def _set_real(self: Tensor, value: Any) -> None:
    real(self)[...] = value


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self)[...] = value


Tensor.real = property(real, _set_real)  # type: ignore[attr-defined]
Tensor.imag = property(imag, _set_imag)  # type: ignore[attr-defined]


@public(method=False)
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs of floats along a new last dim of length 2, a view.

    >>> import jitgrad as jg
    >>> jg.view_as_real(jg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    infer(ViewAsReal(), (check_tensor(input, "view_as_real").type_,))
    return view(ViewAsReal(), input)


@public(method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of floats along the last dim, of length 2, as complex numbers, a view.

    >>> import jitgrad as jg
    >>> jg.view_as_complex(jg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    x, op = check_tensor(input, "view_as_complex"), ViewAsComplex()
    infer(op, (x.type_,))
    *others, last = x.stride()  # type: ignore[attr-defined]
    if last != 1:
        raise located(ShapeError(f"view_as_complex: Tensor must have a last dimension with stride 1, not {last}"))
    if any(s % 2 for s in others):
        raise located(
            ShapeError(
                "view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension, but they are "
                f"{others}"
            )
        )
    return view(op, x)


def _two_floats(name: str, x: Tensor, y: Tensor, first: str, second: str) -> tuple[Tensor, Tensor]:
    """Two tensors of one of the types that parts of complex numbers have."""
    check_tensor(x, name, f"'{first}' (position 1)")
    check_tensor(y, name, f"'{second}' (position 2)")
    for t in (x, y):
        if t.dtype not in (dtypes.float32, dtypes.float64):
            raise located(
                DTypeError(f"{name}: Expected float32 or float64 tensors but got {x.dtype.name} and {y.dtype.name}")
            )
    if x.dtype is not y.dtype:
        raise located(
            DTypeError(
                f"{name}: Expected object of scalar type {x.dtype.name} but got scalar type {y.dtype.name} for the "
                "second argument"
            )
        )
    return x, y


@public(method=False, out="exact")
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """A complex tensor from its real and imaginary parts, both float32 or both float64.

    >>> import jitgrad as jg
    >>> jg.complex(jg.tensor([1.0]), jg.tensor([2.0]))
    tensor([1.+2.j])
    """
    x, y = _two_floats("complex", real, imag, "real", "imag")
    return apply(MakeComplex(), *broadcast("complex", x.dtype, x, y))


@public(method=False, out=True)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from their distances from zero and their angles.

    >>> import jitgrad as jg
    >>> jg.polar(jg.tensor([2.0]), jg.tensor([0.0]))
    tensor([2.+0.j])
    """
    x, y = _two_floats("polar", abs, angle, "abs", "angle")
    size, turn = broadcast("polar", x.dtype, x, y)
    return apply(MakeComplex(), apply(Mul(), size, apply(Cos(), turn)), apply(Mul(), size, apply(Sin(), turn)))


@public(out=True)
def angle(input: Tensor) -> Tensor:
    """The angle of complex numbers; of real ones π where they are negative, else 0, and NaN of NaN."""
    x = check_tensor(input, "angle")
    if x.dtype.is_complex:
        return pointwise(Atan2(), apply(Imag(), x), apply(Real(), x))
    x = convert(x, float_dtype(x.dtype))
    zero, half_turn = (filled(x._data.shape, x.dtype, v) for v in (0.0, math.pi))
    turned = apply(Where(), apply(Lt(), x, zero), half_turn, zero)
    return apply(Where(), apply(IsNan(), x), x, turned)
