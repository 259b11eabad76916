"""Results of jitgrad beside PyTorch's: the same structure, shapes, dtypes and values."""

import numpy as np
import torch

import jitgrad as jg

# Sums come in another order, and half types are rounded after each step: a few units in the last place of the
# largest magnitude nearby.
TOLERANCE = {
    torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-4, torch.complex64: 1e-4, torch.float64: 1e-7,
    torch.complex128: 1e-7,
}  # fmt: skip


def leaves(x):
    """Everything in nested lists, tuples and dicts."""
    if isinstance(x, (list, tuple)) and not isinstance(x, (torch.Size, jg.Size)):
        return [leaf for item in x for leaf in leaves(item)]
    if isinstance(x, dict):
        return [leaf for item in x.values() for leaf in leaves(item)]
    return [x]


def is_tensor(x):
    """Whether it is a tensor of either library."""
    return isinstance(x, (torch.Tensor, jg.Tensor))


def array(t):
    """The numbers, half types as float32."""
    if isinstance(t, torch.Tensor):
        t = t.detach()
        return np.array((t.float() if t.dtype in (torch.bfloat16, torch.float16) else t).numpy(force=True))
    t = t.detach()
    return np.array((t.float() if t.dtype in (jg.bfloat16, jg.float16) else t).numpy())


def dtype_name(t):
    """The dtype's name, without its library's."""
    return str(t.dtype).rpartition(".")[2]


def check_same(got, want, values=True, loosen=1, rounded=None):
    """Raise `AssertionError` unless jitgrad's result is PyTorch's.

    `values=False` leaves out the numbers; `rounded` are results whose dtypes the numbers have passed through.
    """
    got, want, rounded = leaves(got), leaves(want), leaves(want if rounded is None else rounded)
    assert len(got) == len(want), f"{len(got)} results, not {len(want)}"
    for ours, theirs, kind in zip(got, want, rounded, strict=True):
        if not isinstance(theirs, torch.Tensor):
            _check_same_object(ours, theirs, values)
            continue
        assert isinstance(ours, jg.Tensor), f"a {type(ours).__name__}, not a tensor"
        assert tuple(ours.shape) == tuple(theirs.shape), f"shape {tuple(ours.shape)}, not {tuple(theirs.shape)}"
        assert dtype_name(ours) == dtype_name(theirs), f"dtype {ours.dtype}, not {theirs.dtype}"
        if values and theirs.numel():
            check_close(array(ours), array(theirs), loosen * max(TOLERANCE.get(t.dtype, 0) for t in (theirs, kind)))


def check_close(ours, theirs, tolerance):
    """Raise unless the arrays are equal up to `tolerance`, relative to each element and to half the largest."""
    finite = np.abs(theirs[np.isfinite(theirs)]) if theirs.dtype.kind in "fc" else np.zeros(0)
    scale = max(1.0, 0.5 * float(finite.max(initial=0.0))) if tolerance >= 1e-3 else 1.0
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def _check_same_object(ours, theirs, values):
    if isinstance(theirs, torch.Size):
        assert tuple(ours) == tuple(theirs)
    elif values and isinstance(theirs, float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, equal_nan=True)
    elif values and isinstance(theirs, (bool, int, complex)):
        assert ours == theirs, f"{ours}, not {theirs}"


def cotangents(outs, seed=0):
    """Random tensors of PyTorch in the shapes and dtypes of `outs`."""
    rng = np.random.default_rng(seed)
    made = []
    for out in outs:
        numbers = rng.standard_normal(tuple(out.shape))
        if out.dtype.is_complex:
            numbers = numbers + 1j * rng.standard_normal(tuple(out.shape))
        made.append(torch.tensor(numbers, dtype=out.dtype))
    return made


def check_gradients(got, want, loosen=10):
    """Gradients of both libraries: None is as good as zeros, and a finite number is better than PyTorch's NaN."""
    assert len(got) == len(want)
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if ours is None or theirs is None:
            given = theirs if ours is None else ours
            if given is not None:
                assert not np.nanmax(np.abs(array(given)), initial=0) > 1e-9, f"gradient {i}: missing or unexpected"
            continue
        try:
            check_same(ours, theirs, values=False)
            found, wanted = array(ours), array(theirs)
            known = ~np.isnan(wanted)
            check_close(found[known], wanted[known], loosen * TOLERANCE[theirs.dtype])
        except AssertionError as error:
            raise AssertionError(f"gradient {i}: {error}") from None
