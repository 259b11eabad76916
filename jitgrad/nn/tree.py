"""`ModuleTree`: a module's attributes, of which parameters, buffers and modules are kept in registries of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..epoch import Counted, HookTable, WatchedDict, unchanged
from ..tensor import Tensor
from .global_hooks import everywhere
from .parameter import Buffer, Parameter

_MISSING = object()
Item = TypeVar("Item")


class ModuleRegistry(WatchedDict):
    """The modules inside a module, each of which knows what it is inside of."""

    __slots__ = ()

    def _replaced(self, key: Any, old: Any, new: Any) -> None:
        owner: Any = self._owner()
        if owner is not None and old is not new:
            if isinstance(old, Counted) and not any(m is old for m in self.values()):
                old._no_longer_contained_by(owner)
            if isinstance(new, ModuleTree):
                new._contained_by(owner)
                new.__dict__["_scope"] = str(key)
        super()._replaced(key, old, new)

    def link(self) -> None:
        """Tell every module inside; after a copy."""
        for key, module in self.items():
            if module is not None:
                self._replaced(key, None, module)


REGISTRIES: dict[str, type[WatchedDict]] = {
    "_parameters": WatchedDict,
    "_buffers": WatchedDict,
    "_modules": ModuleRegistry,
    "_forward_pre_hooks": HookTable,
    "_forward_hooks": HookTable,
    "_backward_pre_hooks": HookTable,
    "_backward_hooks": HookTable,
    "_state_dict_pre_hooks": HookTable,
    "_state_dict_hooks": HookTable,
    "_load_state_dict_pre_hooks": HookTable,
    "_load_state_dict_post_hooks": HookTable,
}


class ModuleTree(Counted):
    """Attributes by kind, and iteration over a module and all inside it."""

    training: bool
    _parameters: WatchedDict
    _buffers: WatchedDict
    _modules: ModuleRegistry
    _non_persistent_buffers_set: set[str]
    _scope: str

    # registering ------------------------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Keep `tensor` as a buffer: state that is not trained. Not in the `state_dict` unless `persistent`."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (jitgrad Tensor or None required)"
            )
        self._buffers[name] = everywhere.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Keep `param` as a parameter; None reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                "(jitgrad.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = param if param is None else everywhere.registered("parameter", self, name, param)

    def add_module(self, name: str, module: ModuleTree | None) -> None:
        """Keep `module` as a submodule."""
        if module is not None and not isinstance(module, ModuleTree):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = everywhere.registered("module", self, name, module)

    def register_module(self, name: str, module: ModuleTree | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: str, registry: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")

    # attributes -------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            found = state.get(registry)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kind_of(name, value)
        if kind is None:
            self._set_plain(name, value)
            return
        if kind not in self.__dict__:
            what = {"_parameters": "parameters", "_buffers": "buffer", "_modules": "module"}[kind]
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if name not in self.__dict__[kind]:
            self.__dict__.pop(name, None)
            self._unregister(name)
        if kind == "_parameters":
            self.register_parameter(name, value)
        elif kind == "_modules":
            self._modules[name] = everywhere.registered("module", self, name, value)
        else:
            persistent = name not in self._non_persistent_buffers_set
            self.register_buffer(name, value, value.persistent if isinstance(value, Buffer) else persistent)

    def _kind_of(self, name: str, value: Any) -> str | None:
        """The registry that `value` goes to under `name`; None for a plain attribute."""
        if isinstance(value, Parameter):
            return "_parameters"
        state = self.__dict__
        if name in state.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' (jitgrad.nn.Parameter or None expected)"
                )
            return "_parameters"
        if isinstance(value, ModuleTree):
            return "_modules"
        if name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' (jitgrad.nn.Module or None expected)"
                )
            return "_modules"
        if name in state.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as buffer '{name}' "
                    "(jitgrad.nn.Buffer, jitgrad.Tensor or None expected)"
                )
            return "_buffers"
        return "_buffers" if isinstance(value, Buffer) else None

    def _set_plain(self, name: str, value: Any) -> None:
        state = self.__dict__
        old = state.get(name, _MISSING)
        object.__setattr__(self, name, value)
        if name not in state or unchanged(old, value) or "_epoch" not in state:
            return
        if name == "training" and isinstance(old, bool) and isinstance(value, bool):
            self._count_switch()
        else:
            self._count_change()

    def __delattr__(self, name: str) -> None:
        if not self._unregister(name):
            object.__delattr__(self, name)
            self._count_change()

    def _unregister(self, name: str) -> bool:
        """Remove what is registered under `name`; whether there was something."""
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return True
        return False

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if name.isidentifier())

    # looking up -------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The submodule of a dotted name; the module itself for the empty one."""
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, ModuleTree):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: ModuleTree, strict: bool = False) -> None:
        """Put `module` under a dotted name; with `strict`, there must be one already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if not isinstance(getattr(parent, name, module), ModuleTree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        owner, name = self._member(target)
        found = owner._parameters.get(name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def _member(self, target: str) -> tuple[Any, str]:
        """The submodule that has the last name of a dotted one, and that name."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return owner, name

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        owner, name = self._member(target)
        found = owner._buffers.get(name)
        if not isinstance(found, Tensor):
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # iterating --------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all inside it, with dotted names; each once if `remove_duplicate`."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """This module and all inside it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules directly inside this one, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules directly inside this one."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, get: Callable[[Any], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters, with dotted names."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, for an optimizer."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers, with dotted names."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer


def _typename(x: Any) -> str:
    kind = type(x)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
