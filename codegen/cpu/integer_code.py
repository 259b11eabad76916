"""Python functions of integers as LLVM: for algorithms that are no loops over elements, such as sorting.

A function takes and gives int64 numbers, but for parameters that are annotated `Words`, which are pointers to int64
numbers. Its text keeps to assignments, `while`, `if`, `return`, calls of other such functions of its module,
arithmetic, comparisons, `and`, and numbers read and written by index. So the Python is the meaning, and what runs is
fast.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Final

from jitgrad.ir.errors import InternalError

from . import llvm_ir as ir
from .cells import I1, I64, PTR, at, cell

_ARITHMETIC: Final = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.RShift: "ashr", ast.LShift: "shl",
}  # fmt: skip
_COMPARISONS: Final = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class IntegerCode:
    """The functions of one LLVM module, each emitted when it is first called for."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self._functions: dict[str, ir.Function] = {}

    def function(self, source: Callable[..., Any]) -> ir.Function:
        """The LLVM function of a Python function."""
        found = self._functions.get(source.__name__)
        if found is None:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(source))).body
            if not isinstance(tree, ast.FunctionDef):
                raise InternalError(f"{source.__name__} is not a function")
            found = self._functions[source.__name__] = self._declared(tree)
            _Body(self, source, found).emit(tree)
        return found

    def _declared(self, tree: ast.FunctionDef) -> ir.Function:
        kinds = [PTR if _is_words(a) else I64 for a in tree.args.args]
        nothing = isinstance(tree.returns, ast.Constant)
        truth = isinstance(tree.returns, ast.Name) and tree.returns.id == "bool"
        result = ir.VoidType() if nothing else I1 if truth else I64
        made = ir.Function(self.module, ir.FunctionType(result, kinds), f"{self.module.name}_{tree.name}")
        made.linkage = "internal"
        if len(tree.body) < 6:
            made.attributes.add("alwaysinline")
        return made


def _is_words(argument: ast.arg) -> bool:
    return isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Words"


class _Body:
    """One function being emitted: a stack cell for each of its names, which LLVM turns into registers."""

    def __init__(self, code: IntegerCode, source: Callable[..., Any], function: ir.Function) -> None:
        self.code = code
        self.names = source.__globals__
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.cells: dict[str, ir.Value] = {}
        self.words: dict[str, ir.Value] = {}

    def emit(self, tree: ast.FunctionDef) -> None:
        """The body; a function without a result may end without `return`."""
        for argument, value in zip(tree.args.args, self.function.args, strict=True):
            if _is_words(argument):
                self.words[argument.arg] = value
            else:
                self._set(argument.arg, value)
        for node in ast.walk(tree):  # cells stand at the beginning, where a loop makes them once
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self.cells:
                self.cells[node.id] = self.b.alloca(I64)
        self._statements(tree.body[1:])
        if not self.b.block.is_terminated:
            if isinstance(self.function.function_type.return_type, ir.VoidType):
                self.b.ret_void()
            else:
                self.b.unreachable()

    def _set(self, name: str, value: ir.Value) -> None:
        if name not in self.cells:
            self.cells[name] = self.b.alloca(I64)
        self.b.store(value, self.cells[name])

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._set(name, self._value(s.value))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=index)]):
                value = self._value(s.value)
                self.b.store(value, at(self.b, self.words[name], self._value(index)))
            case ast.AugAssign(target=ast.Name(id=name)):
                self._set(name, self._value(ast.BinOp(ast.Name(name), s.op, s.value)))
            case ast.While():
                self._while(s)
            case ast.If():
                self._if(s)
            case ast.Return(value=None):
                self.b.ret_void()
            case ast.Return(value=ast.expr() as value):
                self.b.ret(self._value(value))
            case ast.Expr(value=ast.Call() as call):
                self._value(call)
            case _:
                raise InternalError(f"no integer code: {ast.unparse(s)}")

    def _while(self, s: ast.While) -> None:
        test, body, done = (self.function.append_basic_block(n) for n in ("test", "body", "done"))
        self.b.branch(test)
        self.b.position_at_end(test)
        self._branch(s.test, body, done)
        self.b.position_at_end(body)
        self._statements(s.body)
        self._go_on(test)
        self.b.position_at_end(done)

    def _if(self, s: ast.If) -> None:
        then, other, done = (self.function.append_basic_block(n) for n in ("then", "else", "done"))
        self._branch(s.test, then, other)
        for block, body in ((then, s.body), (other, s.orelse)):
            self.b.position_at_end(block)
            self._statements(body)
            self._go_on(done)
        self.b.position_at_end(done)

    def _go_on(self, block: ir.Block) -> None:
        if not self.b.block.is_terminated:
            self.b.branch(block)

    def _branch(self, test: ast.expr, yes: ir.Block, no: ir.Block) -> None:
        """Go where the truth of `test` says; of `and`, the second part is looked at only if the first holds."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values[:-1]:
                following = self.function.append_basic_block("and")
                self._branch(part, following, no)
                self.b.position_at_end(following)
            test = test.values[-1]
        self.b.cbranch(self._value(test), yes, no)

    def _value(self, e: ast.expr) -> ir.Value:
        match e:
            case ast.Constant(value=bool() as truth):
                return I1(int(truth))
            case ast.Constant(value=int() as number):
                return I64(number)
            case ast.Name(id=name) if name in self.cells:
                return self.b.load(self.cells[name], typ=I64)
            case ast.Name(id=name) if name in self.words:
                return self.words[name]
            case ast.Name(id=name) if isinstance(self.names.get(name), int):
                return I64(self.names[name])
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return cell(self.b, self.words[name], self._value(index))
            case ast.BinOp(left=left, op=op, right=right):
                emit: Callable[[ir.Value, ir.Value], ir.Value] = getattr(self.b, _ARITHMETIC[type(op)])
                return emit(self._value(left), self._value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.b.icmp_signed(_COMPARISONS[type(op)], self._value(left), self._value(right))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.b.call(self.code.function(self.names[name]), [self._value(a) for a in args])
        raise InternalError(f"no integer code: {ast.unparse(e)}")
