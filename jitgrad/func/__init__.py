"""Functional transforms, as in `torch.func`: they take functions and give functions, and compose in any order."""

from .batch import one_by_one
from .forward import jvp, linearize
from .gradients import grad, grad_and_value, value_and_grad, vjp
from .jacobians import hessian, jacfwd, jacrev
from .vmap import vmap

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "one_by_one",
    "value_and_grad",
    "vjp",
    "vmap",
]
