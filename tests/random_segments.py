"""Random functions that read values, branch on them, keep tensors, and write through views; eager and compiled."""

import numpy as np
from random_views import Program

import jitgrad as jg


class SegmentedProgram(Program):
    """Statements as in `Program`, some of which look at values or have effects on Python's objects."""

    def __init__(self, seed, effects):
        self.effects = effects
        super().__init__(seed)

    def view(self):
        """A view, or now and then something that looks at values."""
        choice = self.random.random()
        if choice < 0.3:
            self.look()
        elif choice < 0.4 and self.effects:
            self.act()
        else:
            super().view()

    def look(self):
        x = self.pick()
        a = self.arrays[x]
        same = self.pick(lambda b: b.shape == a.shape)
        forms = [
            f"{x} * 2 if {x}.sum() > 0.2 else {x} - 0.5",
            f"{x}.exp() if bool(({x} > {same}).any()) else {x} * {same}",
            f"{x} + round({x}.sum().item())",
            f"{x} * (1 + len({x}[{x} > 0].tolist()) % 2)",
            f"halved({x})",
        ]
        self.new(self.random.choice(forms), np.zeros(a.shape), None)

    def act(self):
        x = self.pick()
        acts = [f"kept.append({x})", f"kept.append({x}.sum().item())", f"box['x'] = {x} * 2"]
        self.statements.append(self.random.choice(acts))

    def source(self):
        """The program as a function of its leaves."""
        leaves = [s for s in self.statements if "= leaf(" in s]
        rest = [s for s in self.statements if "= leaf(" not in s]
        names = [n for n in self.arrays if not n.startswith("leaf")]
        lines = []
        for statement in rest:  # what is refused leaves everything as it was
            lines += ["    try:", f"        {statement}", "    except RuntimeError as error:"]
            lines.append("        refused.append(type(error).__name__)")
            target = statement.split(" = ")[0]
            if target in names:
                lines.append(f"        {target} = leaf0 * 0")
        body = "\n".join(lines)
        arguments = ", ".join(n for n in self.arrays if n.startswith("leaf"))
        return leaves, f"def program({arguments}, refused):\n{body}\n    return {', '.join(names)}\n"


def halved(x):
    while x.abs().max() > 0.7:
        x = x / 2
    return x


def leaf(i, shape, requires_grad, scale):
    values = np.random.default_rng(i).uniform(-1, 1, shape) * scale
    return jg.tensor(values, dtype=jg.float64, requires_grad=requires_grad)


class Run:
    """One function made from a program's text, eager or compiled, with effects of its own."""

    def __init__(self, text, compile):
        def no_grad(write):
            with jg.no_grad():
                write()

        self.kept, self.box = [], {}
        space = {"halved": halved, "kept": self.kept, "box": self.box, "no_grad": no_grad}
        exec(compile_text(text), space)
        self.function = compile(space["program"])

    def call(self, leaves, scale):
        """Everything that can be seen after a call."""
        made = [eval(s.split(" = ")[1], {"leaf": lambda *a: leaf(*a, scale)}) for s in leaves]
        refused, outs = [], None
        try:
            outs = self.function(*made, refused)
        except (RuntimeError, UnboundLocalError, NameError) as error:
            return type(error).__name__
        total = sum((t * t * (k + 1) * 0.1).sum() for k, t in enumerate(outs) if t.dtype.is_floating_point)
        grads = []
        if isinstance(total, jg.Tensor) and total.requires_grad:
            try:
                total.backward()
                grads = [None if t.grad is None else t.grad.numpy().copy() for t in made]
            except RuntimeError as error:
                grads = [type(error).__name__]
        numbers = [(t.requires_grad, t.detach().numpy().copy()) for t in (*outs, *made)]
        kept = [k.detach().numpy().copy() if isinstance(k, jg.Tensor) else k for k in (*self.kept, *self.box.values())]
        return numbers, grads, kept, refused


def compile_text(text):
    return compile(text, "<random program>", "exec")


def difference(a, b):
    """Where two observations differ; None if they don't."""
    if type(a) is not type(b):
        return f"{a!r} and {b!r}"
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{len(a)} and {len(b)} items"
        return next((f"[{i}] {d}" for i, (x, y) in enumerate(zip(a, b, strict=True)) if (d := difference(x, y))), None)
    if isinstance(a, (np.ndarray, float)):
        same = np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6, atol=1e-8, equal_nan=True)
        return None if same else f"{a} and {b}"
    return None if a == b else f"{a!r} and {b!r}"


def first_difference(seed, effects, calls=(1.0, -1.0, 0.3, 1.0, 2.0, -1.0, 0.3, 1.0)):
    """Run a random program eagerly and compiled, on changing data; the text and where it differs, or None."""
    program = SegmentedProgram(seed, effects)
    leaves, text = program.source()
    eager, compiled = Run(text, lambda f: f), Run(text, jg.compile)
    for k, scale in enumerate(calls):
        want, got = eager.call(leaves, scale), compiled.call(leaves, scale)
        if len(want) == 4 and want[1] and isinstance(want[1][0], str):
            return None  # eager code overwrote what its gradient needs; a graph keeps every value
        found = difference(want, got)
        if found:
            return "\n".join([f"seed {seed}, call {k} (scale {scale}): {found}", *leaves, text])
    return None
