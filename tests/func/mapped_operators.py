"""`vmap` and forward mode over every operator of PyTorch's table: what is checked, and what came out."""

import warnings

import numpy as np
import torch
from conformance.calls import arguments
from conformance.modes import CASES, RANDOM, Nothing

import jitgrad as jg
from jitgrad.func import one_by_one

SIZE = 2
SKIPPED = ("empty", "resize", "item", "sparse", "lowrank")  # numbers without meaning, or memory


def leaves_of(tree):
    return jg.pytree.flatten(tree)


def stacked(x, which):
    """Two samples of a tensor: itself, and one like it."""
    data = x.numpy()
    if which and data.dtype.kind in "fc" and np.isfinite(data).all():
        other = (data * data.dtype.type(0.875)).astype(data.dtype)
    else:
        other = data
    return jg.tensor(np.stack([data, other]))


def masks(count):
    """Which of the tensors have samples: all, the first, the last."""
    found = {tuple(True for _ in range(count))}
    if count > 1:
        found |= {tuple(i == k for i in range(count)) for k in (0, count - 1)}
    return sorted(found)


def flat(out):
    return [x for x in leaves_of(out)[0] if isinstance(x, jg.Tensor)]


def check_vmap(case, count):
    """All samples at once are the samples one by one; gives "right", "fallback" or raises."""
    fell = False
    done = 0
    for sample in case.samples(torch.float64, count):
        args, kwargs = arguments(sample)
        leaves, structure = leaves_of((args, kwargs))
        places = [i for i, x in enumerate(leaves) if isinstance(x, jg.Tensor)]
        for mask in masks(len(places)) if places else ():
            chosen = [p for p, m in zip(places, mask, strict=True) if m]
            result = _check_mask(case, leaves, structure, chosen, case.comparable and not _drops(case, sample))
            if result is not None:
                done += 1
                fell |= result
    if not done:
        raise Nothing
    return "fallback" if fell else "right"


def _drops(case, sample):
    """Whether numbers are drawn: attention with dropout."""
    return "attention" in case.name and any(
        0 < x < 1 for x in (*sample.args, *sample.kwargs.values()) if isinstance(x, float)
    )


def _check_mask(case, leaves, structure, chosen, comparable):
    def call(*tensors):
        full = list(leaves)
        for p, t in zip(chosen, tensors, strict=True):
            full[p] = t.clone()
        args, kwargs = jg.pytree.unflatten(structure, full)
        return flat(case.function(*args, **kwargs))

    samples = [stacked(leaves[p], True) for p in chosen]
    try:
        want = [call(*[s[i] for s in samples]) for i in range(SIZE)]
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None
    if any(a.shape != b.shape for a, b in zip(*want, strict=True)) or not want[0]:
        return None
    before = one_by_one.counts.total()
    try:
        have = jg.vmap(call, randomness="same")(*samples)
    except RuntimeError as error:
        asks = "the value of a Tensor was asked for" in str(error) or "is not possible" in str(error)
        if asks and _torch_refuses(case, leaves, structure, chosen):
            return None
        raise
    for k, h in enumerate(have):
        w = np.stack([w[k].numpy() for w in want])
        assert h.shape == w.shape, (h.shape, w.shape)
        if comparable:
            np.testing.assert_allclose(h.numpy(), w, rtol=1e-8, atol=1e-9, equal_nan=True)
    return one_by_one.counts.total() > before


def _torch_refuses(case, leaves, structure, chosen):
    """Whether PyTorch can't do it either."""

    def theirs(x):
        if isinstance(x, jg.Tensor):
            return torch.from_numpy(np.array(x.numpy()))
        if isinstance(x, jg.dtype):
            return getattr(torch, x.name)
        return x

    def call(*tensors):
        full = [theirs(x) for x in leaves]
        for p, t in zip(chosen, tensors, strict=True):
            full[p] = t.clone()
        args, kwargs = jg.pytree.unflatten(structure, full)
        out = case.entry.op(*args, **kwargs)
        return [x for x in jg.pytree.flatten(out)[0] if isinstance(x, torch.Tensor)]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.vmap(call, randomness="same")(*[torch.stack([theirs(leaves[p])] * 2) for p in chosen])
    except Exception:
        return True
    return False


def cases():
    """The operators that are checked."""
    return {n: c for n, c in CASES.items() if c.function is not None and not any(s in n for s in SKIPPED)}


def _differentiable(case, count):
    """Samples as functions of their floating-point tensors: (function, tensors)."""
    for sample in case.samples(torch.float64, count, grad=True):
        args, kwargs = arguments(sample)
        leaves, structure = leaves_of((args, kwargs))
        wanted = [x for x in leaves_of((sample.input, sample.args, sample.kwargs))[0] if isinstance(x, torch.Tensor)]
        places = [i for i, x in enumerate(leaves) if isinstance(x, jg.Tensor)]
        chosen = [p for p, w in zip(places, wanted, strict=True) if w.requires_grad]
        if not chosen or _drops(case, sample) or _moves_statistics(case, sample):
            continue

        def call(*tensors, leaves=leaves, chosen=chosen, structure=structure):
            full = list(leaves)
            for p, t in zip(chosen, tensors, strict=True):
                full[p] = t.clone()
            args, kwargs = jg.pytree.unflatten(structure, full)
            return [x for x in flat(case.function(*args, **kwargs)) if x.dtype.is_differentiable]

        yield call, [leaves[p] for p in chosen]


def _moves_statistics(case, sample):
    """Whether running statistics, which all samples share, would be written."""
    tensors = [x for x in sample.args[:2] if isinstance(x, torch.Tensor)]
    return "_norm" in case.name and len(tensors) == 2 and all(x.ndim == 1 for x in tensors)


def _noise(like, seed):
    return [jg.tensor(np.random.default_rng(seed + i).uniform(-1, 1, t.shape)).to(t.dtype) for i, t in enumerate(like)]


def check_jvp(case, count):
    """Forward mode is the transpose of reverse mode: products with tangents and cotangents agree."""
    if not case.entry.supports_autograd or RANDOM.search(case.entry.name):
        raise Nothing
    done = 0
    for call, primals in _differentiable(case, count):
        try:
            results, pull = jg.func.vjp(call, *primals)
        except (RuntimeError, ValueError, TypeError):
            continue
        if not results or any(t.dtype.itemsize < 4 for t in results):
            continue
        tangents, seeds = _noise(primals, 1), _noise(results, 100)
        value, moved = jg.func.jvp(call, tuple(primals), tuple(tangents))
        moved = [jg.where(v == v, m, 0) for v, m in zip(value, moved, strict=True)]  # where there is a number at all
        left = sum(float((m.conj() * c).sum().real) for m, c in zip(moved, seeds, strict=True))
        right = sum(float((t.conj() * g).sum().real) for t, g in zip(tangents, pull(seeds), strict=True))
        for v, r in zip(value, results, strict=True):
            np.testing.assert_allclose(v.numpy(), r.numpy(), rtol=1e-10, atol=1e-10, equal_nan=True)
        if np.isfinite(right):
            scale = 1 + sum(float((t.abs() * g.abs()).sum()) for t, g in zip(tangents, pull(seeds), strict=True))
            is_double = all(t.dtype.itemsize == 8 * (1 + t.dtype.is_complex) for t in (*primals, *results))
            assert abs(left - right) <= (1e-8 if is_double else 1e-6) * scale, (left, right)  # rounding, on the way
        done += 1
    if not done:
        raise Nothing
    return "right"


def check_gradients(case, count):
    """Gradients of all samples at once are those of each."""
    if not case.entry.supports_autograd or RANDOM.search(case.entry.name):
        raise Nothing
    done, before = 0, one_by_one.counts.total()
    for call, primals in _differentiable(case, count):
        try:
            results = call(*primals)
        except (RuntimeError, ValueError, TypeError):
            continue
        if not results:
            continue
        seeds = _noise(results, 100)

        def gradient(*tensors, call=call, seeds=seeds):
            return jg.func.vjp(call, *tensors)[1](seeds)

        samples = [stacked(x, True) for x in primals]
        want = [gradient(*[s[i] for s in samples]) for i in range(SIZE)]
        have = jg.vmap(gradient)(*samples)
        for k, h in enumerate(have):
            w = np.stack([w[k].numpy() for w in want])
            np.testing.assert_allclose(h.numpy(), w, rtol=1e-7, atol=1e-8, equal_nan=True)
        done += 1
    if not done:
        raise Nothing
    return "fallback" if one_by_one.counts.total() > before else "right"


CHECKS = {"vmap": check_vmap, "jvp": check_jvp, "vmap of vjp": check_gradients}
