"""Functional transforms, as in `torch.func`: they take functions and give functions, and compose in any order."""

from . import associative as associative
from . import batched_grads as batched_grads
from . import custom as custom
from .batch import one_by_one
from .forward import jvp, linearize
from .functional_form import debug_unwrap, functionalize
from .gradients import grad, grad_and_value, value_and_grad, vjp
from .jacobians import hessian, jacfwd, jacrev
from .modules import functional_call, stack_module_state
from .vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "one_by_one",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]
