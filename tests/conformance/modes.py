"""What is checked of an operator: each mode runs its samples through jitgrad and PyTorch, and raises at a difference.

A mode is a function of a case and of how many samples to take per dtype. `Nothing` says that it does not apply.
"""

import contextlib
import itertools
import re
import signal
import warnings

import numpy as np
import torch
from conformance.calls import arguments, callable_for, tensor, value
from conformance.comparing import array, check_close, check_gradients, check_same, cotangents, is_tensor, leaves
from torch.testing._internal.common_methods_invocations import op_db

import jitgrad as jg

torch.set_num_threads(1)  # samples are small, and test processes many
SECONDS = 120  # for one mode of one operator; times 10 for all samples

# Not documented operators of PyTorch, or ones for what jitgrad has not: sparse tensors, CUDA source.
_LEFT_OUT = re.compile(r"^_[^_]|jiterator|^torch\.|^sparse|to_sparse|native_|scaled_mm|unsafe_|alias_copy|"
                       r"(as_strided|diagonal|expand|permute|split_with_sizes|squeeze|t|transpose|unbind|unfold|"
                       r"unsqueeze|view)_copy$")  # fmt: skip
# Random numbers are the library's own: shapes and dtypes are compared, and compiled code with eager code.
RANDOM = re.compile(
    r"rand|normal|bernoulli|multinomial|dropout|exponential|geometric|cauchy|uniform|rrelu|^empty|new_empty|fractional|"
    r"lowrank|resize|hash_tensor"
)
# Factors that are determined up to signs, phases or order.
GAUGE = re.compile(r"svd$|qr$|linalg\.eig$|eigh$|geqrf|ldl_|ormqr|householder")


class Nothing(Exception):
    """The mode does not apply to the operator, or PyTorch has no answer to compare with."""


class Missing(AssertionError):
    """jitgrad has no such operator."""


class Case:
    """An entry of the table: `name`, the entry, jitgrad's callable, and whether values are comparable."""

    def __init__(self, entry):
        variant = entry.variant_test_name
        self.entry = entry
        self.name = f"{entry.name}.{variant}" if variant else entry.name
        self.function = callable_for(entry.name, variant)
        self.random = bool(RANDOM.search(entry.name))
        self.comparable = not (self.random or GAUGE.search(entry.name))

    def check(self, got, want, sample, **options):
        """Compare results, as far as they are determined."""
        check_same(got, want, self.comparable and not self.drops(sample), **options)

    def drops(self, sample):
        """Whether attention is to drop weights at random."""
        given = (*sample.args, *sample.kwargs.values())
        return "attention" in self.entry.name and any(x == 0.5 for x in given if isinstance(x, float))

    def samples(self, dtype, count, grad=False, sets=("sample_inputs",)):
        """At most `count` samples of a dtype without generators, which are each library's own."""
        torch.manual_seed(0)
        np.random.seed(0)
        found = itertools.chain(*(getattr(self.entry, s)("cpu", dtype, requires_grad=grad) for s in sets))
        plain = (s for s in found if not any(isinstance(x, torch.Generator) for x in leaves([s.args, s.kwargs])))
        return itertools.islice((s.transform(_leaf_of_its_own) for s in plain), count)

    def theirs(self, sample):
        """PyTorch's result, or None where it has none."""
        try:
            return self.entry.op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            return None

    def ours(self, sample, grad=False):
        """jitgrad's result."""
        args, kwargs = arguments(sample, grad)
        return self.function(*args, **kwargs)


def _leaf_of_its_own(x):
    """The tensor; a view that the table took of a leaf without recording it, as a leaf.

    PyTorch says of such a view that it requires a gradient, but gives it none.
    """
    recorded = not isinstance(x, torch.Tensor) or not (x.is_leaf and x.requires_grad and x._is_view())
    return x if recorded else x.detach().requires_grad_()


CASES = {case.name: case for case in map(Case, op_db) if not _LEFT_OUT.search(case.entry.name)}


@contextlib.contextmanager
def _place(*words):
    """Says in an error where it was."""
    try:
        yield
    except Nothing:
        raise
    except Exception as error:
        error.add_note("in " + ", ".join(map(str, words)))
        raise


def _dtypes(case, wanted):
    found = [d for d in wanted if d in case.entry.dtypes]
    if not found:
        raise Nothing
    return found


def eager(case, count, wanted=(torch.float32, torch.int64, torch.bool, torch.complex64)):
    """Values, shapes and dtypes; of contiguous arguments, and of others with gaps in memory."""
    for dtype in _dtypes(case, wanted):
        for i, sample in enumerate(case.samples(dtype, count)):
            for apart in (False, True):
                given = sample.noncontiguous() if apart else sample
                want = case.theirs(given)
                if want is None or (apart and case.entry.name in _OF_MEMORY):
                    continue
                with _place(dtype, f"sample {i}", "not contiguous" if apart else "contiguous", given.summary()):
                    case.check(case.ours(given), want, given)


_OF_MEMORY = ("as_strided", "as_strided_scatter", "as_strided_copy", "resize_", "resize_as_")

_OTHER_DTYPES = (
    torch.float64, torch.complex128, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.int8, torch.int16,
)  # fmt: skip


def dtypes(case, count):
    """The dtypes that are not among those of `eager`."""
    eager(case, count, _OTHER_DTYPES)


def _differentiable(case):
    if not (case.entry.supports_autograd and case.comparable):
        raise Nothing
    return _dtypes(case, (torch.float64, torch.complex128))


def _wanting(results):
    return [x for x in leaves(results) if is_tensor(x) and x.requires_grad]


def _both(case, sample):
    """Differentiable results and arguments: PyTorch's, then jitgrad's."""
    args, kwargs = arguments(sample, True)
    theirs = _wanting(case.theirs(sample))
    ours = _wanting(case.function(*args, **kwargs)) if theirs else []
    assert len(ours) == len(theirs), f"{len(ours)} differentiable results, not {len(theirs)}"
    return theirs, _wanting([sample.input, sample.args, sample.kwargs]), ours, _wanting([args, kwargs])


def grad(case, count):
    """Gradients of all differentiable results for random cotangents."""
    for dtype in _differentiable(case):
        for i, sample in enumerate(case.samples(dtype, count, True)):
            with _place(dtype, f"sample {i}", sample.summary()):
                theirs, their_inputs, ours, our_inputs = _both(case, sample)
                if not theirs or case.drops(sample):
                    continue
                seeds = cotangents(theirs)
                want = _attempt(torch.autograd.grad, theirs, their_inputs, seeds, allow_unused=True)
                if want is not None:
                    got = jg.autograd.grad(ours, our_inputs, [value(c) for c in seeds], allow_unused=True)
                    check_gradients(got, want)


def gradgrad(case, count):
    """Gradients of gradients, with respect to arguments and cotangents."""
    if not case.entry.supports_gradgrad:
        raise Nothing
    for dtype in _differentiable(case):
        for i, sample in enumerate(case.samples(dtype, count, True)):
            with _place(dtype, f"sample {i}", sample.summary()):
                theirs, their_inputs, ours, our_inputs = _both(case, sample)
                if theirs and not case.drops(sample):
                    _check_second(theirs, their_inputs, ours, our_inputs)


def _check_second(theirs, their_inputs, ours, our_inputs):
    seeds = [c.requires_grad_() for c in cotangents(theirs)]
    our_seeds = [tensor(c, True) for c in seeds]
    options = {"create_graph": True, "allow_unused": True}
    first = _attempt(torch.autograd.grad, theirs, their_inputs, seeds, **options)
    kept = [] if first is None else [i for i, g in enumerate(first) if g is not None and g.requires_grad]
    if not kept:
        return
    firsts = [first[i] * 1 for i in kept]  # tensors of their own: one that comes twice would count once
    directions = cotangents(firsts, 1)
    want = _attempt(torch.autograd.grad, firsts, [*their_inputs, *seeds], directions, allow_unused=True)
    if want is None:
        return
    mine = jg.autograd.grad(ours, our_inputs, our_seeds, **options)
    usable = [(mine[i], value(d)) for i, d in zip(kept, directions, strict=True) if mine[i] is not None]
    usable = [(g, d) for g, d in usable if g.requires_grad]
    got = [None] * len(want)
    if usable:
        ours_first, ours_directions = zip(*usable, strict=True)
        got = jg.autograd.grad(list(ours_first), [*our_inputs, *our_seeds], list(ours_directions), allow_unused=True)
    check_gradients(got, want, loosen=100)


def _attempt(function, *args, **kwargs):
    """The result, or None where PyTorch has no such gradient."""
    try:
        return function(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        return None


def compiled(case, count):
    """The first and the second call of the compiled function; random numbers are those of eager code."""
    for dtype in _dtypes(case, (torch.float32, torch.int64)):
        for i, sample in enumerate(case.samples(dtype, count)):
            want = case.theirs(sample)
            if want is None:
                continue
            function = jg.compile(lambda *args, **kwargs: case.function(*args, **kwargs))
            for call in (1, 2):
                with _place(dtype, f"sample {i}", f"call {call}", sample.summary()):
                    jg.manual_seed(7)
                    args, kwargs = arguments(sample)
                    got = function(*args, **kwargs)
                    case.check(got, want, sample)
                    if case.random and not case.entry.name.startswith(("empty", "new_empty", "resize")):
                        jg.manual_seed(7)
                        _check_equal(got, case.ours(sample))


def _check_equal(got, want):
    """Of jitgrad's own results, those of eager code, up to rounding."""
    for ours, other in zip(leaves(got), leaves(want), strict=True):
        check_close(array(ours), array(other), 2e-3 if ours.dtype.itemsize == 2 else 1e-5)


def outcome(function):
    """What a call gives: its result, or the exception."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function()
    except Exception as error:
        return error, []
    return result, [str(w.message) for w in caught if "resized" in str(w.message)]


def _outs(results, change):
    """Tensors for `out`: as the results but for `change`."""
    if is_tensor(results):
        return change(results)
    return tuple(change(r) for r in results)


_CHANGES = {
    "the result's type": lambda t: torch.empty_like(t, requires_grad=False),
    "empty": lambda t: torch.empty(0, dtype=t.dtype),
    "another shape": lambda t: torch.ones((*t.shape, 2), dtype=t.dtype),
    "int64": lambda t: torch.ones(t.shape, dtype=torch.int64),
    "float64": lambda t: torch.ones(t.shape, dtype=torch.float64),
    "with gaps": lambda t: torch.ones((*t.shape, 2), dtype=t.dtype)[..., 0],
}


def out(case, count):
    """`out=` of the right type, and of others: what is written, resized with a warning, or refused."""
    if not case.entry.supports_out:
        raise Nothing
    for dtype in _dtypes(case, (torch.float32, torch.int64))[:1]:
        for i, sample in enumerate(case.samples(dtype, count)):
            plain = case.theirs(sample)
            flat = plain if isinstance(plain, (tuple, list)) else [plain]
            if plain is None or not all(map(is_tensor, flat)) or "out" in sample.kwargs:
                continue
            for what in _CHANGES:
                with _place(dtype, f"sample {i}", f"out: {what}", sample.summary()):
                    _check_out(case, sample, plain, what)


_CONVERTED = ("float64", "empty", "another shape")


def _check_out(case, sample, plain, what):
    args, kwargs = arguments(sample)
    given = _outs(plain, _CHANGES[what])
    mine = value(given)
    want, their_warnings = outcome(lambda: case.entry.op(sample.input, *sample.args, **sample.kwargs, out=given))
    got, our_warnings = outcome(lambda: case.function(*args, **kwargs, out=mine))
    if isinstance(want, Exception):  # some of PyTorch's functions don't convert or resize where others do
        assert isinstance(got, Exception) or what in _CONVERTED, f"PyTorch raises {want!r}"
        return
    if isinstance(got, Exception):
        raise got
    case.check(mine, given, sample, rounded=plain)
    for result, target in zip(leaves(got), leaves(mine), strict=True):
        assert result is target, "the result is not `out`"
    assert our_warnings or not their_warnings, f"no warning like {their_warnings}"


def _is_beyond(x):
    """Whether jitgrad has no such thing: sparse and meta tensors, more than 64 dims; or each library its own."""
    if isinstance(x, torch.Tensor):
        return x.is_meta or x.layout is not torch.strided or x.ndim > 64
    return isinstance(x, torch.Generator) or (isinstance(x, torch.layout) and x is not torch.strided)


def errors(case, count):
    """Wrong arguments raise exceptions of PyTorch's type."""
    if case.entry.error_inputs_func is None or case.entry.name.startswith("__"):  # descriptors of C types refuse
        raise Nothing
    for i, wrong in enumerate(case.entry.error_inputs("cpu")):
        sample = wrong.sample_input
        if any(map(_is_beyond, leaves([sample.input, sample.args, sample.kwargs]))):
            continue
        theirs, _ = outcome(lambda s=sample: case.entry.op(s.input, *s.args, **s.kwargs))
        if not isinstance(theirs, Exception):
            continue
        with _place(f"wrong sample {i}", sample.summary(), f"PyTorch: {theirs}"):
            got, _ = outcome(lambda s=sample: case.ours(s))
            expected = RuntimeError if isinstance(theirs, NotImplementedError) else wrong.error_type
            assert isinstance(got, Exception), f"no error, but PyTorch raises {theirs!r}"
            if not isinstance(got, expected):
                raise AssertionError(f"{type(got).__name__} for {expected.__name__}: {got}") from got


def variants(case, count):
    """The method, the in-place method and other names of the function."""
    for dtype in _dtypes(case, (torch.float32, torch.int64, torch.bool))[:1]:
        for i, sample in enumerate(case.samples(dtype, count)):
            with _place(dtype, f"sample {i}", sample.summary()):
                _check_variants(case, sample)


def _check_variants(case, sample):
    entry, found = case.entry, False
    for name, theirs in ((entry.name, entry.method_variant), (f"{entry.name}_", entry.inplace_variant)):
        if theirs is None or "." in name or entry.name in ("resize_", "resize_as_", "zero_"):
            continue
        found = True
        _check_method(case, sample, name, theirs)
    for alias in entry.aliases:
        found = True
        _check_alias(case, sample, alias)
    if not found:
        raise Nothing


def _check_alias(case, sample, alias):
    other = callable_for(alias.name.removeprefix("torch."))
    if other is None:
        raise Missing(f"{alias.name} is missing")
    want, _ = outcome(lambda: alias.op(sample.input, *sample.args, **sample.kwargs))
    if not isinstance(want, Exception):
        args, kwargs = arguments(sample)
        case.check(other(*args, **kwargs), want, sample)


def _check_method(case, sample, name, theirs):
    before = tensor(sample.input) if is_tensor(sample.input) else None
    if before is None:
        return
    method = getattr(jg.Tensor, name, None)
    own = sample.input.clone()
    want, _ = outcome(lambda: theirs(own, *sample.args, **sample.kwargs))
    if isinstance(want, Exception):
        return
    if method is None:
        raise Missing(f"Tensor.{name} is missing")
    args, kwargs = arguments(sample)
    got = getattr(before, name)
    case.check(got(*args[1:], **kwargs) if callable(got) else got, want, sample)
    if name.endswith("_") and not name.endswith("__"):
        case.check(before, own, sample)


MODES = {f.__name__: f for f in (eager, dtypes, grad, gradgrad, compiled, out, errors, variants)}


def run(case, mode, count):
    """Run a mode of a case, within a time limit."""
    if case.function is None:
        raise Missing(f"{case.name} is missing")
    with _limited(SECONDS if count < 10 else 10 * SECONDS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MODES[mode](case, count)


@contextlib.contextmanager
def _limited(seconds):
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_):
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
