"""What does not agree with PyTorch, with the reason: by operator, then by modes.

An entry that is no longer true fails the suite, as does a difference that has no entry. `KNOWN` holds for the quick
slice and the full run, `KNOWN_IN_FULL` where only the full run's samples show it.
"""

_EVERY = "eager dtypes grad gradgrad compiled out errors variants"
_SHARED_OUT = "an out that shares memory with an operand gets the right result, where PyTorch refuses"
_HIDDEN_OUT = "an undocumented argument of PyTorch's"
_COMPLEX32 = "there is no complex32"
_LEADING = "good to 1e-6 only in PyTorch, whose denominators lack the leading coefficient of Cephes'"

KNOWN: dict[str, dict[str, str]] = {
    "chalf": {_EVERY: _COMPLEX32},
    "complex": {"dtypes": _COMPLEX32},
    "view_as_complex": {"dtypes": _COMPLEX32},
    "as_strided.partial_views": {
        "eager dtypes grad gradgrad compiled": "shows memory around a leaf, where the leaf is a part of other memory"
    },
    "as_strided_scatter": {"grad gradgrad": "PyTorch passes a gradient to an element that is overwritten"},
    "matrix_exp": {"eager dtypes compiled variants": "PyTorch's float32 is off by 2e-3 there, its float16 overflows"},
    **{name: {"errors": _SHARED_OUT} for name in ("cat", "gather", "kthvalue", "masked_select", "take")},
    "narrow_copy": {
        "errors": "a dimension out of range is an IndexError, as for narrow",
        "out": "PyTorch fills an out with gaps in the order of its memory",
    },
    **{
        name: {"out": "floats are not cut to integers, for which PyTorch would compute in integers"}
        for name in ("cumprod", "cumsum", "lu")
    },
    **{name: {"out": "takes outs of all dtypes, as comparisons do"} for name in ("isneginf", "isposinf", "signbit")},
    **{
        f"nn.functional.{name}": {"out": _HIDDEN_OUT}
        for name in (
            "avg_pool2d",
            "avg_pool3d",
            "gelu",
            "hardshrink",
            "linear",
            "logsigmoid",
            "softplus",
            "softshrink",
        )
    },
    "addbmm": {"variants": "in place, PyTorch resizes a tensor that would have to be broadcast"},
    "max_pool2d_with_indices_backward": {"grad gradgrad": "the gradient of pooling as a function has none of its own"},
    "nn.functional.linear_cross_entropy.chunked": {
        "gradgrad": "PyTorch's chunks have no second derivative, jitgrad's have"
    },
    "nn.functional.interpolate.bicubic": {"dtypes": "uint8: PyTorch works with fixed-point weights"},
    "nn.functional.soft_margin_loss": {"dtypes": "float16: PyTorch overflows in between"},
    "grid_sampler_2d": {"dtypes": "float16: PyTorch rounds coordinates to float16"},
    "grid_sampler_3d": {"dtypes": "float16: PyTorch rounds coordinates to float16"},
    **{
        f"polygamma.polygamma_n_{n}": {"dtypes": "infinite at poles, where PyTorch's float32 misses them"}
        for n in range(5)
    },
    "special.polygamma.special_polygamma_n_0": {"dtypes": "infinite at poles, where PyTorch's float32 misses them"},
    "special.bessel_j0": {"dtypes": _LEADING},
    "special.bessel_y1": {"dtypes": _LEADING},
}

# Functions of integers and bools, whose float32 results are compared to 1e-7.
KNOWN_OF_INTEGERS: dict[str, str] = {
    **{
        f"fft.{name}{dims}": "MKL and pocketfft round otherwise"
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for dims in ("", "2", "n")
    },
    **dict.fromkeys(("cosh", "sinh"), "PyTorch has the last elements, less than two vectors, from libm, 1 ulp off"),
    **{f"special.{name}": _LEADING for name in ("airy_ai", "bessel_y0", "bessel_y1")},
    "as_strided.partial_views": "shows memory around its operand",
    "masked.var": "PyTorch adds the squares in float32 in an order of its own, 1.5e-7 off",
}

KNOWN_IN_FULL: dict[str, dict[str, str]] = {}


def reason(table, name, mode):
    """Why an operator does not agree in a mode, or None."""
    for modes, why in table.get(name, {}).items():
        if mode in modes.split():
            return why
    return None
