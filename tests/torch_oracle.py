"""Short programs run with jitgrad and with PyTorch: the same values, dtypes, shapes, gradients and errors."""

import contextlib
import io
import warnings

import numpy as np
import pytest

import jitgrad


def inputs(lib):
    """What programs may use: `x` (2,3,4), `v` (5), `m` (3,3), `s` () of float64 with gradients; others without."""
    rng = np.random.default_rng(0)

    def leaf(*shape):
        return lib.tensor(rng.standard_normal(shape).tolist(), dtype=lib.float64, requires_grad=True)

    return {
        "L": lib, "np": np, "x": leaf(2, 3, 4), "v": leaf(5), "m": leaf(3, 3), "s": leaf(),
        "n": lib.arange(24).reshape(2, 3, 4), "k": lib.tensor([0, 2, 1, 2]),
        "mask": lib.tensor([[True, False, True]] * 2),
        "f": lib.arange(12, dtype=lib.float32).reshape(3, 4), "z": lib.zeros(0, 3, dtype=lib.float64),
    }  # fmt: skip


LEAVES = ("x", "v", "m", "s")


def run(lib, program):
    """The outcome of a program: its results and gradients as arrays, or the exception it raises."""
    env = inputs(lib)
    *statements, last = program.split("; ")
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            exec("\n".join(statements), env)
            result = eval(last, env)
        except Exception as error:
            return error
        flat = list(_flatten(result))
        arrays = [_describe(r) for r in flat]
        grads = _gradients(lib, env, [r for r in flat if getattr(r, "requires_grad", False)])
    return arrays + grads


def _flatten(result):
    if isinstance(result, (tuple, list)) and not hasattr(result, "numel"):
        for r in result:
            yield from _flatten(r)
    else:
        yield result


def _describe(r):
    if hasattr(r, "detach"):
        wide = r.detach().float() if str(r.dtype).endswith("bfloat16") else r.detach()
        return (
            str(r.dtype).rpartition(".")[2],
            tuple(r.shape),
            bool(r.requires_grad),
            np.array(wide.numpy()),
        )
    if str(type(r)).endswith("dtype'>") or str(type(r)).endswith("DType'>"):
        return str(r).rpartition(".")[2]
    return r


def _gradients(lib, env, results):
    if not results:
        return []
    rng = np.random.default_rng(1)
    total = 0
    for r in results:
        weights = lib.tensor(rng.standard_normal(tuple(r.shape)).tolist(), dtype=r.dtype).reshape(tuple(r.shape))
        total = total + (r * weights).sum()
    total.backward()
    return [None if env[name].grad is None else _describe(env[name].grad) for name in LEAVES]


def check(program, rtol=1e-6):
    """Fail unless jitgrad does what PyTorch does; a jitgrad error must be of the type PyTorch raises."""
    torch = pytest.importorskip("torch")
    theirs, ours = run(torch, program), run(jitgrad, program)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"PyTorch raises {theirs!r}; jitgrad gives {ours!r}"
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"PyTorch gives {theirs}") from ours
    assert len(theirs) == len(ours)
    for expected, got in zip(theirs, ours, strict=True):
        if isinstance(expected, tuple) and len(expected) == 4:
            assert got[:3] == expected[:3]
            np.testing.assert_allclose(got[3], expected[3], rtol=rtol, atol=1e-9)
        else:
            assert got == expected
