"""Random statements about tensors: views, results, writes, branches on values, and Python state."""

import re

LOCAL = re.compile(r"a|b|c|t\d+")

STATE = [
    "S.scale = S.scale * 1.5", "S.count += 1", "S.items.append({x})", "S.items.append({x}.sum())",
    "S.table['k'] = {x}", "S.table['k'] = 3.0", "S.buffer.mul_(0.5)", "S.buffer = S.buffer + 1", "K = K + 1",
    "{new} = S.items[-1] if S.items else {x}", "{new} = {x} * S.table['k']", "{new} = {x} * S.scale + K",
    "{new} = {x} * S.count", "{new} = S.buffer * 2", "{new} = S.buffer[1:]", "S.buffer[0] = {x}.sum().detach()",
    "S.items[-1:] = [{x}.clone()]", "{new} = {x} + len(S.items)",
]  # fmt: skip

VIEWS = [
    "{x}[{i}]", "{x}[{i}:]", "{x}[::2]", "{x}[..., ::2]", "{x}[..., 1:]", "{x}[:-1]", "{x}[None]", "{x}[...]",
    "{x}.transpose(0, -1)", "{x}.t()", "{x}.T", "{x}.unsqueeze(0)", "{x}.squeeze()", "{x}.expand(2, *{x}.shape)",
    "{x}.reshape(-1)", "{x}.view(-1)", "{x}.reshape({x}.shape[0], -1)", "{x}.unfold(0, 2, 1)",
    "{x}.unfold(-1, 2, 2)", "{x}.diagonal()", "{x}.as_strided((2, 2), (1, 1))", "{x}.as_strided((2,), (1,), 1)",
    "{x}.as_strided((2, 2), (2, 1))", "{x}.detach()", "{x}.flip(0)", "{x}.narrow(0, {i}, 1)", "{x}.movedim(0, 1)",
    "{x}.flatten()", "{x}.chunk(2)[0]", "{x}.unbind(0)[-1]", "{x}.split(2)[-1]", "{x}.contiguous()",
    "{x}.to({x}.dtype)", "{x}.permute(*reversed(range({x}.ndim)))", "{x}.select(-1, {i})", "{x}.view({x}.shape)",
    "{x}.unsqueeze(-1).expand(*{x}.shape, 2)", "{x}.expand_as({x})", "{x}.mT", "{x}.ravel()",
    "jg.no_grad()(lambda t: t[...])({x})", "jg.no_grad()(lambda t: t.view(-1))({x})",
    "jg.enable_grad()(lambda t: t[None])({x})",
]  # fmt: skip

RESULTS = [
    "{x}.sin()", "{x}.tanh()", "{x} * 0.5", "{x} * {y}", "{x} + {y}", "{x} - {y}", "{x}.clone()", "-{x}", "{x}.sum(0)",
    "{x}.mean()", "{x}.cumsum(0)", "jg.where({x} > 0, {x}, {y})", "{x}.sort(0)[0]", "{x}.amax(-1)", "{x}.relu()",
    "jg.cat([{x}, {x}])", "jg.stack([{x}, {x} * 2])", "{x}.roll(1, 0)", "{x}.masked_fill({x} < 0, 0.5)",
    "{x}.softmax(-1)", "{x}[{x} > 0]", "{x}[[{i}, 0]]", "{x} * jg.rand_like({x})", "{x} @ {x}.mT",
    "{x} * {x}.sum().item()", "{x} + float({y}.mean())", "{x}.clone().t()", "{x}.to(jg.float32).to(jg.float64)",
    "jg.nn.functional.dropout({x}, 0.5)", "{x}.index_select(0, jg.tensor([{i}, 0]))", "jg.zeros_like({x})",
    "jg.autograd.grad(({x} * {x}).sum(), {x}, create_graph=True)[0] if {x}.requires_grad else {x}",
    "{x}.clone(memory_format=jg.contiguous_format)", "{x}.repeat(2, *[1] * ({x}.ndim - 1))",
    "{x}.gather(0, ({x} > 0).long() % {x}.shape[0])",
]  # fmt: skip

WRITES = [
    "{x}.mul_({y})", "{x}.add_({y})", "{x}.sub_({y}, alpha=2)", "{x}.sin_()", "{x}.copy_({y})", "{x}[...] = {y}",
    "{x}.neg_()", "{x}.zero_()", "{x}.fill_(0.3)", "{x}[{i}] = 0.7", "{x}[{i}] += 0.1", "{x}[{x} > 0] = 0.25",
    "{x}[1:].copy_({x}[:-1])", "{x}[1:] += {x}[:-1]", "{x}[1:] = {x}[:-1].clone()", "{x}.t().mul_(2)",
    "{x}.clamp_(-0.5, 0.5)", "{x}.addcmul_({y}, {y})", "{x}.masked_fill_({x} < 0, 0.5)", "{x} *= {y}", "{x} += 1",
    "{x}.index_add_(0, jg.tensor([{i}, 0]), jg.ones((2, *{x}.shape[1:]), dtype=jg.float64))",
    "jg.add({x}, {y}, out={z})", "jg.sin({x}, out={z})", "jg.mul({x}, 2, out={z}[...])", "{x}.transpose_(0, -1)",
    "{x}.unsqueeze_(0)", "{x}.squeeze_()", "{x}, {z} = {z}, {x}", "{x}[[{i}, 0]] = 0.2", "{x}.copy_({x}.flip(0))",
    "{x}.copy_({x}.t())", "{x}.detach().mul_(2)", "{x}.detach_()", "{x}.swapaxes(0, -1).copy_({x})",
    "with jg.no_grad():\n    {x}.mul_(0.5)", "with jg.no_grad():\n    {x}.copy_({y})",
    "with jg.no_grad():\n    {new} = {x}[{i}:] * 2", "{x}[..., 0] = {x}[..., -1]", "{x}.diagonal().fill_(1)",
    "{x}.scatter_(0, ({x} > 0).long() % {x}.shape[0], 0.5)", "jg.cumsum({x}, 0, out={z})", "{x}.uniform_(-1, 1)",
    "{x}.reciprocal_()",
]  # fmt: skip

BRANCHES = [
    "if {x}.sum() > 0:\n    {w}\nelse:\n    {v}", "if float({x}.mean()) > 0:\n    {w}",
    "if {x}.max().item() > 0.5:\n    {w}\nelse:\n    {v}",
    "for _ in range(S.count % 3):\n    {w}", "while {x}.abs().sum() > 1:\n    {x} = {x} * 0.5",
    "{new} = {x}[: int({y}.abs().sum()) % 3 + 1]", "{new} = {x} * len({y}.nonzero())", "assert {x}.abs().max() < 1e9",
    "{new} = jg.tensor({x}.tolist(), dtype=jg.float64) + {x}",
    "try:\n    {x}[9] = 1.0\nexcept IndexError:\n    {w}", "try:\n    {w}\nexcept RuntimeError:\n    {v}",
    "if S.scale > 3:\n    {w}", "if {x} is {y}:\n    {w}", "if {x}.requires_grad:\n    {w}",
    "if {x}.shape[0] > 3:\n    {w}",
    "for row in {x}:\n    row.mul_(2)", "{new} = sum(row for row in {x})",
    "{new} = [v for v in ({x}, {y}) if v.sum() > 0.1][0]",
]  # fmt: skip


def statement(rng, space):
    """One, in names of `space` whose values are tensors; a view's or result's name is new."""
    names = [n for n, v in space.items() if LOCAL.fullmatch(n) and hasattr(v, "requires_grad") and v.numel() <= 64]
    new = f"t{len([n for n in space if n.startswith('t')])}"
    kind = rng.choices([VIEWS, RESULTS, WRITES, BRANCHES, STATE], [30, 15, 35, 10, 10])[0]
    text = rng.choice(kind)
    if kind in (VIEWS, RESULTS):
        text = f"{{new}} = {text}"
    x = rng.choice(names)
    if "{x}" in text and kind is WRITES:
        x = rng.choice([n for n in names if not _overlaps(space[n])] or ["a"])
    fill = {"x": x, "new": new, "i": rng.randrange(2), "z": rng.choice(names)}
    like = [n for n in names if space[n].shape == space[x].shape]
    fill["y"] = rng.choice([*like, *like, *names])
    arms = {k: rng.choice([w for w in WRITES[:33] if "\n" not in w]).format(**fill) for k in "wv"}
    return text.format(**fill, **arms)


def _overlaps(x):
    """Whether two elements may lie at one address, so that the order of writes decides."""
    reach = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += stride * (size - 1) if size > 1 else 0
    return False
