"""Samples of views of complex numbers as their parts, and back."""

from ops.sampling import COMPLEX, FLOATS, Sample, numbers

from jitgrad.ir.ops.complex import Imag, Real, ViewAsComplex, ViewAsReal

SHAPES = ((), (3,), (2, 3), (0,), (2, 0, 3))


def _torch(name):
    def call(x):
        import torch

        return getattr(torch, name)(x)

    return call


def _of_complex(op):
    def build():
        for shape in SHAPES:
            for dtype in COMPLEX:
                yield Sample(op, (numbers(shape, dtype, 1),), _torch(op.name), smooth=dtype is COMPLEX[1])
        yield Sample(op, (numbers((3, 2), COMPLEX[1], 2).T,), _torch(op.name), smooth=True)

    return build


def _view_as_complex():
    for shape in SHAPES:
        for dtype in FLOATS[2:]:
            x = numbers((*shape, 2), dtype, 1)
            oracle = _torch("view_as_complex") if x.size else None  # which looks at strides
            yield Sample(ViewAsComplex(), (x,), oracle, smooth=dtype is FLOATS[3])


TABLE = {
    "real": _of_complex(Real()),
    "imag": _of_complex(Imag()),
    "view_as_real": _of_complex(ViewAsReal()),
    "view_as_complex": _view_as_complex,
}
