"""Every op in the registry, on every sample: types, meaning, scalar rules, accumulators, gradients."""

import contextlib

import numpy as np
import pytest
from ops.element_rules import run_accumulators, run_elements
from ops.gradients import check_gradients, graph_of
from ops.samples import samples_of

from jitgrad.ir import dtypes
from jitgrad.ir.autodiff import residuals
from jitgrad.ir.errors import AutogradError
from jitgrad.ir.interpreter import apply_reference
from jitgrad.ir.op import IndexMap, Op, Pointwise, Reduction
from jitgrad.ir.ops import REGISTRY

NAMES = sorted(REGISTRY)


def run(sample):
    return [np.asarray(r) for r in apply_reference(sample.op, sample.arrays)]


def assert_close(have, want, ulps, scale=None):
    """Equal up to `ulps` units in the last place of the largest finite magnitude nearby; NaN where NaN is."""
    assert have.shape == want.shape and have.dtype == want.dtype
    dtype = dtypes.FROM_NUMPY[want.dtype]
    if not dtype.is_differentiable:
        np.testing.assert_array_equal(have, want)
        return
    wide = np.complex128 if dtype.is_complex else np.float64
    have, want = have.astype(wide), want.astype(wide)
    epsilon = {2: 2.0**-8 if dtype is dtypes.bfloat16 else 2.0**-11}.get(dtype.itemsize)
    epsilon = epsilon or float(np.finfo(dtypes.to_real(dtype).np).eps)
    np.testing.assert_allclose(have, want, rtol=ulps * epsilon, atol=ulps * epsilon * (scale or 1e-3), equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_has_samples(name):
    assert samples_of(name), f"no samples of {name}: add them to the table in tests/ops/samples.py"


@pytest.mark.parametrize("name", NAMES)
def test_is_complete(name):
    cls = REGISTRY[name]
    meaning = cls.reference is not Op.reference or cls.has_decomposition()
    assert meaning, f"{name} has no reference and no decomposition"
    if cls.differentiable:
        assert cls.has_vjp() or cls.has_decomposition(), f"{name} has no gradient rule"
    if issubclass(cls, Pointwise) and cls.reference is Pointwise.reference:
        assert callable(cls.ufunc)


@pytest.mark.parametrize("name", NAMES)
def test_infer_tells_the_truth(name):
    for sample in samples_of(name):
        inferred = sample.op.infer(*sample.types)
        for have, want in zip(run(sample), inferred, strict=True):
            assert have.shape == want.shape, sample
            assert dtypes.FROM_NUMPY[have.dtype] is want.dtype, sample


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_means_what_pytorch_means(name):
    import torch

    for sample in samples_of(name):
        if sample.torch is None:
            continue
        operands = [_to_torch(torch, a) for a in sample.arrays]
        want = sample.torch(*operands)
        with _naming(sample):
            for have, one in zip(run(sample), want if isinstance(want, tuple) else (want,), strict=False):
                assert_close(have, _from_torch(torch, one), sample.ulps, scale=1.0)


def _to_torch(torch, array):
    if array.dtype == dtypes.bfloat16.np:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def _from_torch(torch, tensor):
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(dtypes.bfloat16.np)
    return tensor.resolve_conj().numpy()


@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(REGISTRY[n], Pointwise | IndexMap)])
def test_scalar_rule(name):
    for sample in samples_of(name):
        if not sample.op.can_emit(*sample.types) or type(sample.op).element is IndexMap.element:
            continue
        (result,) = sample.op.infer(*sample.types)
        if not all(t.dtype.kind != "complex" for t in (result, *sample.types)):
            continue
        with _naming(sample):
            assert_close(run_elements(sample.op, sample.arrays, result), run(sample)[0], sample.ulps, scale=1e-3)


@pytest.mark.parametrize("order", ["halves", "interleaved"])
@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(REGISTRY[n], Reduction)])
def test_accumulators(name, order):
    for sample in samples_of(name):
        if not sample.op.can_emit(*sample.types):
            continue
        with _naming(sample):
            assert_close(run_accumulators(sample.op, sample.arrays[0], order), run(sample)[0], sample.ulps, scale=1.0)


# `with_history` has another gradient than its value's: see tests/compile/test_views_writes.py. What raises when
# asked for a gradient has none: see tests/nn/test_sequences.py.
NO_GRADIENTS = ("with_history", "ctc_loss_grad")


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].differentiable and n not in NO_GRADIENTS])
def test_gradients(name):
    checked = 0
    for sample in samples_of(name):
        if sample.smooth and any(a.dtype in (np.float64, np.complex128) for a in sample.arrays):
            result, *_ = sample.op.infer(*sample.types)
            if result.dtype in (dtypes.float64, dtypes.complex128):
                with _naming(sample):
                    check_gradients(graph_of(sample), list(sample.arrays), sample.order)
                checked += 1
    assert checked, f"no float64 sample of {name} is smooth"


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].differentiable])
def test_what_a_gradient_uses_does_not_depend_on_shapes(name):
    """The tape asks once for each op, its operands' dtypes and which of them need a gradient."""
    seen = {}
    for sample in samples_of(name):
        needs = tuple(t.dtype.is_differentiable for t in sample.types)
        if not any(needs) or not any(t.dtype.is_differentiable for t in sample.op.infer(*sample.types)):
            continue
        key = (sample.op, needs, tuple(t.dtype for t in sample.types))
        with contextlib.suppress(AutogradError):  # of an operand that has no derivative
            mask = residuals(sample.op, sample.types, needs)
            assert seen.setdefault(key, mask) == mask, sample


@pytest.mark.parametrize("name", [n for n in NAMES if issubclass(REGISTRY[n], Pointwise) and REGISTRY[n].fast])
def test_fast_ufunc(name):
    """`ufunc` called directly, as small eager tensors do, broadcasting as it goes."""
    op = REGISTRY[name]()
    tested = (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32, dtypes.uint8)
    for dtype in tested[:2] if op.arity == 1 else tested:
        if dtype.kind not in op.accepts:
            continue
        values = np.linspace(0.125, 0.875, 6) if dtype.is_floating_point else np.arange(1, 7)
        shapes = [(2, 3), (3,), (1, 1)][: op.arity]
        arrays = [np.resize(values, s).astype(dtype.np) + (0 if i == 0 else 1) for i, s in enumerate(shapes)]
        arrays = [a.astype(dtype.np) for a in arrays]
        have = type(op).ufunc(*(a + dtype.np.type(1) if op.name == "acosh" else a for a in arrays))
        full = np.broadcast_arrays(*(a + dtype.np.type(1) if op.name == "acosh" else a for a in arrays))
        want = op.reference(*full)
        assert have.dtype == want.dtype and have.dtype == op.result_dtype(*[dtype] * op.arity).np
        np.testing.assert_array_equal(have, want)
        if op.arity == 2 and dtype.is_floating_point:
            have = type(op).ufunc(arrays[0], 2.0)
            want = op.reference(arrays[0], np.full_like(arrays[0], 2.0))
            np.testing.assert_allclose(have, want, rtol=2e-7)  # a square, one rounding less than a power
            assert have.dtype == want.dtype


class _naming:
    """Adds the sample's name to what fails inside."""

    def __init__(self, sample):
        self.sample = sample

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            error.add_note(f"sample: {self.sample}")
