"""What a recorded operator keeps for its gradient, as it shows: by writes afterwards, and by a second backward.

PyTorch allows a write to what it has not kept, and refuses backward after one to what it has. A program that PyTorch
takes has to run here, with the same gradients. What jitgrad has no need to keep may be written all the same, and then
gradients have to be those without the write.
"""

import torch
from conformance.calls import arguments, value
from conformance.comparing import check_gradients, cotangents, is_tensor, leaves
from conformance.modes import Nothing

import jitgrad as jg


def _wanting(results):
    return [x for x in leaves(results) if is_tensor(x) and x.requires_grad]


def _mapped(x, f):
    """`x` with `f` of its tensors."""
    if is_tensor(x):
        return f(x)
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        items = [_mapped(i, f) for i in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return {k: _mapped(v, f) for k, v in x.items()} if isinstance(x, dict) else x


class Recorded:
    """A call of an operator on copies of leaves: the leaves, the copies, all results, and those with gradients."""

    def __init__(self, lib, function, args, kwargs):
        self.lib = lib
        given = _mapped((args, kwargs), lambda t: t.detach().requires_grad_(t.requires_grad))
        self.leaves = _wanting(given)
        args, kwargs = _mapped(given, lambda t: t.clone())
        self.operands = [x for x in leaves((args, kwargs)) if is_tensor(x)]
        lib.manual_seed(0)
        results = function(*args, **kwargs)
        self.results = [x for x in leaves(results) if is_tensor(x)]
        self.wanted = _wanting(results)

    def gradients(self):
        """Gradients at the leaves, for random cotangents of the results."""
        seeds = cotangents([torch.empty(tuple(t.shape), dtype=_torch_dtype(t)) for t in self.wanted])
        seeds = seeds if self.lib is torch else [value(c) for c in seeds]
        return self.lib.autograd.grad(self.wanted, self.leaves, seeds, allow_unused=True)


def _torch_dtype(t):
    return getattr(torch, str(t.dtype).rpartition(".")[2])


def _write(t):
    if t.dtype in (torch.bool, jg.bool):
        t.logical_not_()
    else:
        t.add_(1)


def _attempt(function, *args):
    try:
        return function(*args)
    except RuntimeError as error:
        return error


def _steps(call):
    """What is done between the call and backward, by name."""
    yield "backward", lambda c: c.gradients()
    for i in range(len(call.operands)):
        yield f"a write to operand {i}", lambda c, i=i: _write(c.operands[i])
    for i in range(len(call.results)):
        yield f"a write to result {i}", lambda c, i=i: _write(c.results[i])


def check(case, sample):
    """Raise unless jitgrad takes what PyTorch takes, and the gradients are those without a write."""
    args, kwargs = arguments(sample, True)

    def theirs():
        return Recorded(torch, case.entry.op, (sample.input, *sample.args), sample.kwargs)

    def ours():
        return Recorded(jg, case.function, args, kwargs)

    first = _attempt(theirs)
    if isinstance(first, Exception) or not first.wanted or isinstance(_attempt(first.gradients), Exception):
        raise Nothing
    plain = ours().gradients()
    for what, step in _steps(first):
        call, mine = theirs(), ours()
        if isinstance(_attempt(step, call), Exception):
            continue
        refused = isinstance(_attempt(call.gradients), Exception)
        done = _attempt(step, mine)
        found = done if isinstance(done, Exception) else _attempt(mine.gradients)
        if isinstance(found, Exception):
            if not refused:
                raise AssertionError(f"backward after {what}, which PyTorch takes: {found}") from found
        elif not case.random:
            try:
                check_gradients(found, [None if g is None else torch.from_numpy(g.numpy()) for g in plain])
            except AssertionError as error:
                raise AssertionError(f"backward after {what}: {error}") from None
