"""Specialisations whose functions asked for values on the way: a tree of segments, walked without Python.

    tree ::= Specialisation | Branch(segment, question, answer -> trees)

A replay runs a branch's segment, asks its question, and goes on with a tree under that answer whose guards hold. At
the end of the path stands a specialisation, which alone changes anything. An answer that is not known yet is traced
from the start; its path is then grafted onto the tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jitgrad.ir.errors import InternalError

from .cuts import Cut
from .questions import Question
from .segments import is_same_run
from .sources import same_source
from .specialise import REFUSED, Specialisation, finish, replay


@dataclass(frozen=True)
class Unknown:
    """The result of a walk that met an answer, or a state behind it, of which nothing is known."""

    cut: Cut

    def __str__(self) -> str:
        where = f" at {self.cut.location}" if self.cut.location else ""
        return f"another answer than before: {self.cut.why}{where}"


@dataclass(eq=False)
class Branch:
    """A segment, the question that ends it, and what follows each answer."""

    cut: Cut
    children: dict[Hashable, tuple[Tree, ...]] = field(default_factory=dict)
    runs: int = 0

    @property
    def guards(self) -> Any:
        """What must hold for the segment to run; None if that was checked before."""
        return self.cut.guards

    @property
    def question(self) -> Question:
        """What is asked at its end."""
        return self.cut.question


Tree: TypeAlias = Branch | Specialisation


def walk(tree: Tree, leaves: Sequence[Any]) -> Any:
    """One call by `tree`, whose own guards hold. `Unknown` or `REFUSED` if it can't serve; then nothing has changed."""
    if tree.__class__ is Specialisation:
        return replay(tree, leaves)
    arrays: list[Any] = []
    computed: list[Any] = []
    while isinstance(tree, Branch):
        arrays += [source.fetch(leaves) for source in tree.cut.sources]
        found = _step(tree, arrays, computed)
        if found is None:
            return REFUSED
        tree.runs += 1
        for child in tree.children.get(found, ()):
            if child.guards is None or child.guards.hold(leaves):
                tree = child
                break
        else:
            return Unknown(tree.cut)
    arrays += [source.fetch(leaves) for source in tree.fresh]
    return finish(tree, leaves, arrays, computed)


def _step(branch: Branch, arrays: list[Any], computed: list[Any]) -> Hashable:
    """Run a segment and ask; what tells the answer. None if something is refused."""
    cut = branch.cut
    try:
        if cut.run is not None:
            computed += cut.run([arrays[i] if i >= 0 else computed[-1 - i] for i in cut.inputs])
        key, answer = cut.question.ask([arrays[i] if i >= 0 else computed[-1 - i] for i in cut.asked])
    except InternalError:
        raise
    except Exception:
        return None
    if cut.question.makes:
        arrays += answer
    return (key,)


def graft(roots: Sequence[Tree], cuts: Sequence[Cut], end: Specialisation, leaves: Sequence[Any]) -> list[Tree]:
    """The trees with a new path in them, where a tree's guards hold and its segments are those of the path."""
    found = list(roots)
    trees, branch, key = found, None, None
    for cut in cuts:
        known = next((t for t in trees if isinstance(t, Branch) and _is_same(t.cut, cut) and _holds(t, leaves)), None)
        if known is None:
            known = Branch(cut)
            _add(known, trees, branch, key)
        branch, key = known, (cut.answer,)
        trees = list(branch.children.get(key, ()))
    _add(end, trees, branch, key)
    return found


def _add(tree: Tree, trees: list[Tree], branch: Branch | None, key: Hashable) -> None:
    """Put `tree` beside `trees`, which are those under an answer of `branch`, or the roots."""
    trees.append(tree)
    if branch is not None:
        branch.children[key] = tuple(trees)


def _holds(tree: Tree, leaves: Sequence[Any]) -> bool:
    return tree.guards is None or bool(tree.guards.hold(leaves))


def _is_same(a: Cut, b: Cut) -> bool:
    """Whether two traces did the same up to this cut, since the one before."""
    return (
        is_same_run(a.run, b.run) and a.inputs == b.inputs and a.asked == b.asked and a.question == b.question
        and len(a.sources) == len(b.sources) and all(map(same_source, a.sources, b.sources))
    )  # fmt: skip


def varies(roots: Sequence[Tree], most: int) -> Branch | None:
    """A branch that has met more answers than are worth a specialisation each; the first, if there are many in all."""
    if len(ends(roots)) > most:
        return next((tree for tree in _all(roots) if isinstance(tree, Branch)), None)
    for tree in _all(roots):
        if isinstance(tree, Branch) and len(tree.children) > tree.question.most:
            return tree
    return None


def ends(roots: Sequence[Tree]) -> list[Specialisation]:
    """The specialisations at the ends of all paths."""
    return [tree for tree in _all(roots) if isinstance(tree, Specialisation)]


def _all(roots: Sequence[Tree]) -> Iterator[Tree]:
    stack = list(reversed(roots))
    while stack:
        tree = stack.pop()
        yield tree
        if isinstance(tree, Branch):
            stack.extend(t for found in reversed(list(tree.children.values())) for t in reversed(found))
