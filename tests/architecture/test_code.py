"""House rules on code: where the environment is read, what is mutable, how ops are told apart."""

import ast

CONFIG_MODULE = "jitgrad.ir.config"
ENVIRONMENT = {"environ", "environb", "getenv", "putenv"}
MUTATORS = {
    "append", "appendleft", "add", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft",
    "remove", "setdefault", "update",
}  # fmt: skip
CONTAINERS = {
    "list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter",
    "WeakKeyDictionary", "WeakValueDictionary", "WeakSet",
}  # fmt: skip

# (module, name) of a module's global that functions change: why it can't live in an object.
MUTABLE_GLOBALS: dict[tuple[str, str], str] = {
    ("jitgrad.ir.scalar", "_TABLE"): "expressions are interned, so that they compare by identity",
    ("jitgrad.codegen.cpu.llvm_ir.types", "_TABLE"): "types are interned, so that they compare by identity",
    ("jitgrad.functions.registry", "FUNCTIONS"): "a registry, filled while the modules load",
}


def test_environment_is_read_in_one_file(library, report):
    report(
        [
            source.at(node, f"the environment is read in {CONFIG_MODULE} alone")
            for source in library
            if source.module != CONFIG_MODULE
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Attribute | ast.alias) and _last_name(node) in ENVIRONMENT
        ]
    )


def test_globals_are_not_mutated(library, report):
    report(
        [
            source.at(node, f"changes the module's global {name}; keep state in an object, or declare it in "
                            f"MUTABLE_GLOBALS of tests/architecture/test_code.py")
            for source, node, name in _changes(library)
            if (source.module, name) not in MUTABLE_GLOBALS
        ]
    )  # fmt: skip


def test_declared_globals_still_exist(library):
    changed = {(source.module, name) for source, _, name in _changes(library)}
    assert not set(MUTABLE_GLOBALS) - changed, "MUTABLE_GLOBALS declares what is no more"


def test_ops_are_not_told_apart_by_name(library, report):
    report(
        [
            source.at(node, "compares an op's name with a string; match on the op's class")
            for source in library
            if not source.module.startswith("jitgrad.ir.ops")
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Compare) and _compares_op_name(node)
        ]
    )


def _last_name(node):
    """The last part of a name: `c` of `a.b.c`, of `c`, and of `c` in an import."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)


def _global_containers(source):
    """Names of the module's globals that hold a list, a dict, a set or the like."""
    names = set()
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_container(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def _is_container(value):
    if isinstance(value, ast.Call):
        return _last_name(value.func) in CONTAINERS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _changes(library):
    """(source, node, name) for each place in a function that changes a global of its module."""
    return [
        (source, node, name)
        for source in library
        for function in source.functions
        for node in ast.walk(function)
        for name in _changed_globals(node, _global_containers(source))
    ]


def _changed_globals(node, containers):
    """Names among `containers` that this statement or call changes, and names it declares `global`."""
    if isinstance(node, ast.Global):
        return node.names
    changed = []
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        changed = [node.value]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        changed = [node.func.value]
    return [n.id for n in changed if isinstance(n, ast.Name) and n.id in containers]


def _compares_op_name(node):
    """Whether one side is the name of an op and another a string, or a collection of strings."""
    sides = [node.left, *node.comparators]
    return any(map(_is_op_name, sides)) and any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) for side in sides for n in ast.walk(side)
    )


def _is_op_name(node):
    """`op_name`, `opname`, `x.op.name`, `op.name`, `type(op).__name__`, `op.__class__.__name__`."""
    if _last_name(node) in ("op_name", "opname"):
        return True
    if not isinstance(node, ast.Attribute) or node.attr not in ("name", "__name__", "__qualname__"):
        return False
    return any(_last_name(n) == "op" for n in ast.walk(node.value))
