// Colours of nodes, by kernel, by kind of op, by change, or by cost; and the legend.

const COLOR_MODES = { kernel: "by kernel", kind: "by kind of op", change: "by change", cost: "by cost" };
const KINDS = {
  pointwise: 212, view: null, reduction: 30, composite: 300, creation: 55, product: 150, other: 0, input: 100,
};
const KIND_NAMES = {
  pointwise: "pointwise", view: "view", reduction: "reduction", composite: "composite", creation: "creation",
  product: "matrix product", other: "other",
};

let dark = false;
const cssColors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "line", "ink", "soft", "faint", "accent", "canvas", "scope", "scope-2", "edge", "in", "out",
    "added", "rewired", "removed", "neutral", "mark", "accent-back"]) cssColors[name] = style.getPropertyValue(`--${name}`).trim();
}

function hsl(hue, strength = 1) {
  return dark ? `hsl(${hue} ${38 * strength}% 31%)` : `hsl(${hue} ${72 * strength}% 84%)`;
}
/** A step's colour: kernels differ from their neighbours; BLAS is grey-green, the host hatched red. */
function stepColor(k) {
  const kind = page.data.execution.steps[k].kind;
  if (kind === "blas") return dark ? "hsl(160 30% 26%)" : "hsl(160 45% 80%)";
  if (kind === "host") return dark ? "hsl(0 45% 34%)" : "hsl(0 80% 85%)";
  if (kind === "copy") return cssColors.neutral;
  return hsl((200 + k * 137.508) % 360);
}
function heat(share) {
  const x = Math.sqrt(Math.min(1, Math.max(0, share)));
  return dark ? `hsl(${45 - 45 * x} ${20 + 60 * x}% ${22 + 20 * x}%)` : `hsl(${48 - 44 * x} ${40 + 55 * x}% ${95 - 35 * x}%)`;
}
function kindColor(kind) { return KINDS[kind] == null ? cssColors.neutral : hsl(KINDS[kind]); }

/** Colouring of one stage. `weight(n)` is the cost of a node, `total` of all. */
class Coloring {
  constructor(stage, mode) {
    this.stage = stage;
    this.mode = mode;
    this.costs = nodeCosts(stage);
    this.most = this.costs.values.reduce((a, b) => Math.max(a, b), 0) || 1;
  }
  of(n) {
    const stage = this.stage;
    if (this.mode === "kernel") return stage.stepsOf[n].length ? stepColor(stage.stepsOf[n][0]) : cssColors.neutral;
    if (this.mode === "kind") return kindColor(stage.opOf(n).kind);
    if (this.mode === "cost") return heat(this.costs.values[n] / this.most);
    const state = stage.state[n];
    if (state) return dark ? `color-mix(in srgb, ${cssColors[state]} 45%, ${cssColors.back})` : `color-mix(in srgb, ${cssColors[state]} 30%, white)`;
    return cssColors.neutral;
  }
  /** The parts of a folded scope's bar: [colour, share]. */
  shares(scope) {
    const counts = new Map();
    let sum = 0;
    for (const n of scope.all()) {
      if (this.stage.isConstant(n)) continue;
      const weight = this.mode === "cost" ? this.costs.values[n] : 1;
      const color = this.of(n);
      counts.set(color, (counts.get(color) || 0) + weight);
      sum += weight;
    }
    return [...counts].map(([color, x]) => [color, sum ? x / sum : 0]);
  }
  legend() {
    const stage = this.stage;
    const entry = (color, text) => `<span><i style="background:${color}"></i>${escapeHtml(text)}</span>`;
    if (this.mode === "kernel") {
      if (!page.data.execution) return entry(cssColors.neutral, "nothing was compiled");
      const kinds = new Set(page.data.execution.steps.map((s) => s.kind));
      return `<span><i style="background:linear-gradient(90deg,${[1, 2, 3].map((k) => hsl((200 + k * 137.508) % 360)).join()})"></i>a colour for each kernel</span>`
        + (kinds.has("blas") ? entry(dark ? "hsl(160 30% 26%)" : "hsl(160 45% 80%)", "BLAS") : "")
        + (kinds.has("host") ? entry(dark ? "hsl(0 45% 34%)" : "hsl(0 80% 85%)", "host (NumPy)") : "")
        + entry(cssColors.neutral, stage.isLast ? "no work: the same memory, or read through" : "no work, or gone later");
    }
    if (this.mode === "kind") {
      const there = new Set(stage.op.map((o) => stage.data.ops[o].kind));
      return Object.keys(KIND_NAMES).filter((k) => there.has(k)).map((k) => entry(kindColor(k), KIND_NAMES[k])).join("");
    }
    if (this.mode === "cost") {
      return `<span><i style="background:linear-gradient(90deg,${heat(0)},${heat(0.3)},${heat(1)})"></i>${escapeHtml(this.costs.what)}: up to ${escapeHtml(this.costs.show(this.most))}</span>`;
    }
    const parts = [];
    if (stage.origin) parts.push(entry(cssColors.added, "added by this pass"), entry(cssColors.rewired, "other operands now"));
    if (stage.doomed.size) parts.push(`<span><i style="border:2px dashed ${cssColors.removed}"></i>removed by the next pass</span>`);
    return parts.join("") || entry(cssColors.neutral, "the first stage");
  }
}

/** A node's cost: its share of its step's time on the last stage, else bytes. */
function nodeCosts(stage) {
  const run = stage.data.execution;
  const values = new Array(stage.size).fill(0);
  if (run && stage.isLast) {
    for (const step of run.steps) {
      const time = step.measured ?? step.estimate;
      for (const n of step.nodes) values[n] += time / step.nodes.length;
    }
    const what = run.measured ? "measured time" : "estimated time";
    return { values, what: `${what}, shared evenly in a kernel`, show: duration };
  }
  for (let n = 0; n < stage.size; n++) values[n] = stage.bytesOf(n);
  return { values, what: "bytes read and written alone", show: (x) => amount(x, "B") };
}

function escapeHtml(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}
