"""Samples of Fourier transforms: one axis and several, even and odd lengths, all factors.

PyTorch's do not take empty operands.
"""

from ops.sampling import Sample, uniform

from jitgrad.ir import dtypes
from jitgrad.ir.ops.fourier import FftC2C, FftC2R, FftR2C

CASES = [
    ((8,), (0,)),
    ((7,), (0,)),
    ((2, 5, 6), (2,)),
    ((2, 5, 6), (0, 2)),
    ((3, 4), (1, 0)),
    ((0, 4), (1,)),
    ((1,), (0,)),
]
NORMS = {"none": ("backward", "forward"), "by_root_n": ("ortho", "ortho"), "by_n": ("forward", "backward")}


def _c2c():
    for shape, axes in CASES:
        for norm, names in NORMS.items():
            for inverse in (False, True):

                def oracle(x, axes=axes, inverse=inverse, name=names[inverse]):
                    import torch

                    return (torch.fft.ifftn if inverse else torch.fft.fftn)(x, dim=axes, norm=name)

                for dtype in (dtypes.complex64, dtypes.complex128):
                    arrays = (uniform(shape, dtype),)
                    yield Sample(
                        FftC2C(axes, inverse, norm),
                        arrays,
                        oracle if 0 not in shape else None,
                        smooth=0 not in shape,
                        ulps=32,
                    )


def _r2c():
    for shape, axes in CASES:
        for norm, names in NORMS.items():

            def oracle(x, axes=axes, name=names[0]):
                import torch

                return torch.fft.rfftn(x, dim=axes, norm=name)

            for dtype in (dtypes.float32, dtypes.float64):
                yield Sample(
                    FftR2C(axes, norm),
                    (uniform(shape, dtype),),
                    oracle if 0 not in shape else None,
                    smooth=0 not in shape,
                    ulps=32,
                )


def _c2r():
    for shape, axes in CASES:
        for norm, names in NORMS.items():
            length = shape[axes[-1]]
            half = tuple(length // 2 + 1 if a == axes[-1] else n for a, n in enumerate(shape))

            def oracle(x, axes=axes, name=names[1], sizes=tuple(shape[a] for a in axes)):
                import torch

                return torch.fft.irfftn(x, sizes, axes, norm=name)

            for dtype in (dtypes.complex64, dtypes.complex128):
                op = FftC2R(axes, length, norm)
                yield Sample(
                    op, (uniform(half, dtype),), oracle if 0 not in shape else None, smooth=0 not in shape, ulps=32
                )


TABLE = {"fft_c2c": _c2c, "fft_r2c": _r2c, "fft_c2r": _c2r}
