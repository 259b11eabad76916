"""How jitgrad is called for an operator of PyTorch's table: by which function, and with what.

The table's own callables sometimes take their arguments in another order than the function they stand for, or wrap
an in-place method; `ADAPTED` says the same of jitgrad.
"""

import numpy as np
import torch

import jitgrad as jg
from jitgrad import autograd, nn  # noqa: F401


def _inplace(name):
    return lambda x, *args, **kwargs: getattr(x.clone().detach(), name)(*args, **kwargs)


def _max_pool2d_backward(x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False, return_indices=True):
    out, indices = jg.nn.functional.max_pool2d_with_indices(
        x, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        return_indices=True,
    )  # fmt: skip
    stride = kernel_size if stride is None else stride
    return jg.max_pool2d_with_indices_backward(
        jg.ones_like(out), x, kernel_size, stride, padding, dilation, ceil_mode, indices
    )


def _attribute(name):
    return lambda x: getattr(x, name)


ADAPTED = {
    "where": lambda x, condition, other, **k: jg.where(condition, x, other, **k),
    "einsum": lambda tensors, equation: jg.einsum(equation, tensors),
    "nn.functional.embedding": lambda weight, index, **k: jg.nn.functional.embedding(index, weight, **k),
    "nn.functional.embedding_bag": lambda weight, index, **k: jg.nn.functional.embedding_bag(index, weight, **k),
    "normal.number_mean": lambda std, mean, *args, **k: jg.normal(mean, std, *args, **k),
    "polygamma": lambda x, n, **k: jg.polygamma(n, x, **k),
    "special.polygamma": lambda x, n, **k: jg.special.polygamma(n, x, **k),
    "linalg.lstsq.grad_oriented": lambda a, b, driver: jg.linalg.lstsq(a, b, driver=driver)[:2],
    "pca_lowrank": lambda a, b, **k: jg.pca_lowrank(a @ b.mT, **k),
    "svd_lowrank": lambda a, b, **k: jg.svd_lowrank(a @ b.mT, **k),
    "linalg.pinv.singular": lambda a, b: jg.linalg.pinv(a @ b.mT),
    "max_pool2d_with_indices_backward": _max_pool2d_backward,
    "resize_": lambda x, shape: x.clone().resize_(shape),
    "resize_as_": lambda x, other: x.clone().resize_as_(other),
    "zero_": lambda x: x.clone().zero_(),
    "normal.in_place": _inplace("normal_"),
    **{name: _inplace(f"{name}_") for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")},
    **{name: _attribute(name) for name in ("T", "H", "mT", "mH")},
}


def callable_for(name, variant=""):
    """jitgrad's callable for an operator of the table, or None if there is none."""
    for key in (f"{name}.{variant}", name):
        if key in ADAPTED:
            return ADAPTED[key]
    found = jg
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found
    if "." not in name and hasattr(jg.Tensor, name):
        return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
    return None


def tensor(x, grad=False):
    """A PyTorch tensor as a tensor of jitgrad, with the same strides; bfloat16 goes through float32."""
    plain = x.detach().clone() if x.is_contiguous() else x.detach()
    plain = plain.resolve_conj().resolve_neg()
    if x.dtype is torch.bfloat16:
        made = jg.from_numpy(plain.float().numpy()).to(jg.bfloat16)
    else:
        array = plain.numpy()
        if not x.is_contiguous():
            array = _in_memory_of_its_own(array)
        made = jg.from_numpy(array)
    return made.requires_grad_() if grad and x.requires_grad else made


def _in_memory_of_its_own(array):
    """A copy of the array with its strides."""
    room = sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) if array.size else 0
    memory = np.empty(room // array.itemsize + 1, array.dtype)
    copy = np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
    copy[...] = array
    return copy


def value(x, grad=False):
    """An argument for PyTorch as one for jitgrad."""
    if isinstance(x, torch.Tensor):
        return tensor(x, grad)
    if isinstance(x, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(jg, str(x).split(".")[1])
    if isinstance(x, torch.nn.Module):
        return getattr(jg.nn, type(x).__name__)()
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, (list, tuple)):
        items = [value(i, grad) for i in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {k: value(v, grad) for k, v in x.items()}
    return x


def arguments(sample, grad=False):
    """Arguments of one of the table's samples, by position and by name."""
    return [value(x, grad) for x in (sample.input, *sample.args)], value(sample.kwargs, grad)
