"""The node that an eager op leaves on the tape, made natively: what `jitgrad.fast_path` records, slot by slot."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from . import llvm_ir as ir
from .cells import I64, PTR
from .eager_few import DTYPE
from .eager_layout import Layout, Words

_RESULT = 2  # the bit that says that the result is saved


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor or number, its array or 0, and whether it leads to a gradient and is saved."""

    x: ir.Value
    array: ir.Value
    leads: ir.Value
    is_kept: ir.Value


def build_record(module: ir.Module, layout: Layout, arity: int) -> ir.Function:
    """`function(cells, result, which operands lead to a gradient, operands, their arrays or 0)`: 0 if it failed."""
    type_ = ir.FunctionType(I64, [PTR, *[I64] * (2 * arity + 2)])
    function = ir.Function(module, type_, f"jitgrad_record_{arity}")
    cells, result, leading, *words = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    code = Words(b, cells, layout)
    cell = code.place()
    bits = code.saved("bits", leading)
    operands = [
        _Operand(x, array, _has(b, leading, k), _has(b, bits, k))
        for k, (x, array) in enumerate(zip(words[:arity], words[arity:], strict=True))
    ]
    node = code.made(code["new_object"], [code["node"], code["empty"], I64(0)])
    for offset in layout.absent:
        code.put(node, offset, code.none())
    code.put(node, layout.op, code.hold(code["op"]))
    code.put(node, layout.kept, code.hold(code.saved("kept", leading)))
    code.put(node, layout.edges, code.tuple_of(code["PyTuple_New"], [_edge(code, o, cell) for o in operands]))
    code.put(node, layout.types, _types(code, operands, cell))
    code.put(node, layout.seq, code.made(code["PyIter_Next"], [code["counter"]]))
    _save(code, node, result, operands, bits, cell)
    code.put(result, layout.made_by, node)
    code.put(result, layout.requires_grad, code.hold(code["true"]))
    b.ret(I64(1))
    return function


def _has(b: ir.IRBuilder, bits: ir.Value, k: int) -> ir.Value:
    return b.icmp_signed("!=", b.and_(bits, I64(1 << k)), I64(0))


def _edge(code: Words, operand: _Operand, cell: ir.Value) -> ir.Value:
    """Where an operand comes from: a leaf, a node, a node and the number of its result, or None."""
    b, layout, x = code.b, code.layout, operand.x
    with b.if_else(operand.leads) as (then, other):
        with then:
            node, index = code.get(x, layout.made_by), code.get(x, layout.index)
            is_leaf = code.is_a(node, "none")
            with b.if_else(b.or_(is_leaf, code.is_a(index, "zero"))) as (plain, numbered):
                with plain:
                    b.store(code.hold(b.select(is_leaf, x, node)), cell)
                with numbered:
                    b.store(code.tuple_of(code["PyTuple_New"], [code.hold(node), code.hold(index)]), cell)
        with other:
            b.store(code.none(), cell)
    return b.load(cell, typ=I64)


def _types(code: Words, operands: list[_Operand], cell: ir.Value) -> ir.Value:
    """The type of the operand that neither an edge nor a saved array tells, or None."""
    b = code.b
    if len(operands) == 1:
        return code.none()
    b.store(code["none"], cell)
    for k, o in enumerate(operands):
        told = b.or_(o.leads, b.and_(o.is_kept, b.icmp_signed("!=", o.array, I64(0))))
        with b.if_then(b.icmp_signed("==", b.zext(told, I64), I64(0))):
            shape = _shape(code, o.array)
            dtype = code.hold(code.get(b.select(code.same(o.array, I64(0)), operands[1 - k].array, o.array), DTYPE))
            pair = [code.none(), code.none()]
            pair[k] = code.tuple_of(code["PyTuple_New"], [shape, dtype])
            b.store(code.tuple_of(code["PyTuple_New"], pair), cell)
    found = b.load(cell, typ=I64)
    with b.if_then(code.is_a(found, "none")):
        code.none()
    return found


def _shape(code: Words, array: ir.Value) -> ir.Value:
    """That of an array, or of a number."""
    b = code.b
    cell = code.place()
    with b.if_else(code.same(array, I64(0))) as (then, other):
        with then:
            b.store(code.hold(code["empty"]), cell)
        with other:
            b.store(code.made(code["PyObject_GetAttr"], [array, code["shape"]]), cell)
    return b.load(cell, typ=I64)


def _save(
    code: Words, node: ir.Value, result: ir.Value, operands: list[_Operand], bits: ir.Value, cell: ir.Value
) -> None:
    """The residuals, who owns them, and how often they were written."""
    b, layout = code.b, code.layout
    with b.if_else(b.icmp_signed("==", bits, I64(0))) as (then, other):
        with then:
            for offset in (layout.saved, layout.owners):
                code.put(node, offset, code.hold(code["nothing"]))
            code.put(node, layout.versions, code.none())
        with other:
            keeps = _has(b, bits, _RESULT)
            none = code["none"]
            data = [b.select(o.is_kept, _data(code, o), none) for o in operands]
            owners = [b.select(b.and_(o.is_kept, b.icmp_signed("!=", o.array, I64(0))), o.x, none) for o in operands]
            out = b.select(keeps, code.get(result, layout.data), none)
            saved = [code.hold(x) for x in (*data, out)]
            code.put(node, layout.saved, code.tuple_of(code["PyTuple_New"], saved))
            storage = _storage(code, result, keeps, cell)
            held = [code.hold(x) for x in (*owners, storage)]
            code.put(node, layout.owners, code.tuple_of(code["PyTuple_New"], held))
            code.put(node, layout.versions, _versions(code, owners, cell))


def _data(code: Words, operand: _Operand) -> ir.Value:
    """What is saved of an operand: its array, or the number itself."""
    return code.b.select(code.same(operand.array, I64(0)), operand.x, operand.array)


def _storage(code: Words, result: ir.Value, keeps: ir.Value, cell: ir.Value) -> ir.Value:
    """The result's storage, made where the result is saved; else None. No reference is added."""
    b, layout = code.b, code.layout
    b.store(code["none"], cell)
    with b.if_then(keeps):
        made = code.made(code["new_object"], [code["storage"], code["empty"], I64(0)])
        code.put(made, layout.version, code.hold(code["zero"]))
        code.put(made, layout.views, code.made(code["PyList_New"], [I64(0)]))
        code.put(made, layout.keepers, code.none())
        code.put(result, layout.storage, made)
        b.store(made, cell)
    return b.load(cell, typ=I64)


def _versions(code: Words, owners: list[ir.Value], cell: ir.Value) -> ir.Value:
    """How often the memory of what is saved was written, or None if nobody counts that yet."""
    b = code.b
    versions = [_version(code, x) for x in owners]
    counted = functools.reduce(b.or_, [b.icmp_signed("!=", v, I64(0)) for v in versions])
    with b.if_else(counted) as (then, other):
        with then:
            zero = code["zero"]
            held = [code.hold(b.select(code.same(v, I64(0)), zero, v)) for v in versions]
            b.store(code.tuple_of(code["PyTuple_New"], [*held, code.hold(zero)]), cell)
        with other:
            b.store(code.none(), cell)
    return b.load(cell, typ=I64)


def _version(code: Words, owner: ir.Value) -> ir.Value:
    """The count of writes of a tensor's storage; 0 without one, or for None."""
    b, layout = code.b, code.layout
    cell = code.place()
    b.store(I64(0), cell)
    with b.if_then(b.icmp_signed("!=", owner, code["none"])):
        storage = code.get(owner, layout.storage)
        with b.if_then(b.icmp_signed("!=", storage, code["none"])):
            b.store(code.get(storage, layout.version), cell)
    return b.load(cell, typ=I64)
