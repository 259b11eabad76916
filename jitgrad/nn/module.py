"""`Module`: the base of all layers and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.ir import dtypes
from jitgrad.ir.dtypes import DType
from jitgrad.ir.errors import CompileError
from jitgrad.ir.types import Device

from ..autograd.grad_mode import no_grad
from ..compiler import compile as compile_function
from ..creation import empty
from ..device import as_device
from ..epoch import COUNTER_FIELDS
from ..mode import local
from ..tensor import Tensor
from .global_hooks import everywhere
from .hooks import ModuleHooks
from .tree import REGISTRIES

_NOT_COPIED = COUNTER_FIELDS | {"_compiled_call"}


class Module(ModuleHooks):
    """Base class of neural network modules: parameters, buffers and other modules, and a `forward` method.

    >>> import jitgrad as jg
    >>> class Net(jg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = jg.nn.Linear(2, 1)
    ...     def forward(self, x):
    ...         return self.fc(x).relu()
    >>> net = Net()
    >>> net(jg.zeros(4, 2)).shape
    jitgrad.Size([4, 1])
    >>> [name for name, _ in net.named_parameters()]
    ['fc.weight', 'fc.bias']
    """

    _compiled_call: Any = None

    call_super_init: bool = False  # whether classes behind this one are initialised too

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            name = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
            raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")
        state = self.__dict__
        self._start_counting()
        state["training"] = True
        for name, registry in REGISTRIES.items():
            state[name] = registry(self)
        state["_non_persistent_buffers_set"] = set()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # calling ----------------------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it. Call the module itself, which runs the hooks too."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled_call
        if compiled is not None:
            tracer = local.mode.tracer
            if tracer is None or tracer.reruns:
                return compiled(*args, **kwargs)
        return self._run(*args, **kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        tracer = local.mode.tracer
        state = self.__dict__
        run = (
            self._with_hooks
            if state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
            or everywhere.are_on_calls
            else self.forward
        )
        if tracer is None:
            return run(*args, **kwargs)
        tracer.touch(self)
        tracer.touch(everywhere)
        with tracer.module(state.get("_scope", type(self).__name__)):
            return run(*args, **kwargs)

    # compiling --------------------------------------------------------------------------------------------

    def compile(self, **options: Any) -> None:
        """`jitgrad.compile` this module, in place."""
        compile_function(self, **options)

    def _compile_call(self, make: Callable[[Callable[..., Any]], Any]) -> Module:
        """For `jitgrad.compile`: calls go through `make(call)` from now on, except inside another trace."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._run(*args, **kwargs)

        call.__name__ = call.__qualname__ = type(self).__qualname__
        self.__dict__["_compiled_call"] = make(call)
        return self

    def explain(self, *, measure: bool = False) -> Any:
        """What compiling this module's calls did; see `explain` of compiled functions."""
        if self._compiled_call is None:
            raise CompileError(f"{type(self).__name__} is not compiled; jitgrad.compile(module) does that")
        return self._compiled_call.explain(measure=measure)

    # modes ------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Any:
        """Set this module and all inside it to training mode (or not), which dropout and batch norm heed."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Switch recording for gradients on or off for all parameters."""
        for module in self.modules():
            for p in module._parameters.values():
                if p is not None and p.requires_grad != requires_grad:
                    p.requires_grad_(requires_grad)
                    module._count_change()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove all parameters' gradients, or set them to zero."""
        tracer = local.mode.tracer
        for p in self.parameters():
            if tracer is not None and set_to_none:
                tracer.drop_grad(p)
            elif p.grad is None:
                continue
            elif set_to_none:
                p.grad = None
            else:
                if p.grad.grad_fn is not None:
                    p.grad.detach_()  # type: ignore[attr-defined]
                with no_grad():
                    p.grad.zero_()  # type: ignore[attr-defined]

    # changing all -----------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Any], Any]) -> Any:
        """Call `fn` on all modules inside, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace the data of parameters, gradients and buffers by what `fn` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for p in self._parameters.values():
            if p is not None:
                _replace(p, fn)
                if p.grad is not None:
                    grad = p.grad
                    p.grad = None
                    _replace(grad, fn)
                    p.grad = grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        self._count_change()
        return self

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
           memory_format: Any = None) -> Any:  # fmt: skip
        """Convert floating-point parameters and buffers, in place, to a dtype, device, or those of a tensor."""
        for arg in args:
            if isinstance(arg, DType):
                dtype = arg
            elif isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, (str, Device)) or type(arg) is int:
                device = arg
            elif arg is not None and not isinstance(arg, bool):
                raise TypeError(f"to() received an invalid argument of type {type(arg).__name__}")
        non_blocking = non_blocking or True in [arg for arg in args if isinstance(arg, bool)]
        where = None if device is None else as_device(device)
        if dtype is None and where is None:
            return self
        if dtype is not None and not dtype.is_differentiable:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def converted(t: Any) -> Any:
            return t.to(where, dtype if t.dtype.is_differentiable else None, non_blocking=non_blocking)

        return self._apply(converted)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))  # type: ignore[attr-defined]

    def _floats_to(self, dtype: DType) -> Any:
        return self._apply(lambda t: t.to(dtype) if t.dtype.is_floating_point else t)  # type: ignore[attr-defined]

    def float(self) -> Any:
        """Convert floating-point parameters and buffers to float32."""
        return self._floats_to(dtypes.float32)

    def double(self) -> Any:
        """Convert floating-point parameters and buffers to float64."""
        return self._floats_to(dtypes.float64)

    def half(self) -> Any:
        """Convert floating-point parameters and buffers to float16."""
        return self._floats_to(dtypes.float16)

    def bfloat16(self) -> Any:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._floats_to(dtypes.bfloat16)

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU, in place."""
        return self._apply(lambda t: t.cpu())  # type: ignore[attr-defined]

    def cuda(self, device: Any = None) -> Any:
        """Move all parameters and buffers to a CUDA device, by default the current one, in place."""
        where = as_device("cuda" if device is None else device)
        return self._apply(lambda t: t.to(where))  # type: ignore[attr-defined]

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move all parameters and buffers to a device without their numbers, in place."""
        return self._apply(lambda t: empty(tuple(t.shape), dtype=t.dtype, device=device), recurse)

    def share_memory(self) -> Any:
        """Itself; threads share memory as it is."""
        return self

    # printing and copying ---------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What a module's `repr` says between its brackets."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        body = "\n  ".join([*lines, *children])
        return f"{self._get_name()}(\n  {body}\n)"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _NOT_COPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = self.__dict__
        own.update(state)
        self._start_counting()
        for name, registry in REGISTRIES.items():
            own[name] = registry(self, own.get(name, ()))
        self._modules.link()


def _replace(t: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    with no_grad():
        before = t.detach()  # type: ignore[attr-defined]
        after = fn(before)
    if after is not before:
        t.data = after


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
