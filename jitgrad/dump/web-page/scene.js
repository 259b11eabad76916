// What is to be drawn of a stage: boxes in boxes with absolute places, for the scopes that are unfolded.

const PAD = 12, HEAD = 26, PHASE_GAP = 48, FOLDED = 44;
const TITLE_FONT = '600 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const SMALL_FONT = '10.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const LONGEST_TITLE = 28, LONGEST_LINE = 30;

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();
function textWidth(text, font) {
  const key = font + text;
  if (!widths.has(key)) { measuring.font = font; widths.set(key, measuring.measureText(text).width); }
  return widths.get(key);
}
function clip(text, length) { return text.length <= length ? text : text.slice(0, length - 1) + "…"; }

/** Builds boxes; keeps layouts of scopes whose insides kept their sizes. */
class SceneBuilder {
  constructor(stage) {
    this.stage = stage;
    this.layouts = new Map();
    this.edgesOf = new Map();
    this.labels = new Map();
  }

  /** The outermost box. `expanded` holds the ids of unfolded scopes. */
  build(expanded, showConstants) {
    this.expanded = expanded;
    this.showConstants = showConstants;
    const root = this._box(this.stage.root, null);
    this.ofNode = new Map();
    this.ofScope = new Map();
    this._settle(root, 0, 0);
    return root;
  }

  _shows(n) { return this.showConstants || !this.stage.isConstant(n); }

  _box(scope, parent) {
    const open = !scope.parent || this.expanded.has(scope.id);
    const box = { scope, node: -1, parent, open, children: [], edges: [], x: 0, y: 0, order: scope.first };
    if (!open) {
      box.title = clip(scope.title, LONGEST_LINE);
      box.w = Math.max(textWidth(box.title, TITLE_FONT) + 36, textWidth(app.scopeSubtitle(scope), SMALL_FONT) + 24, 96);
      box.h = FOLDED;
      return box;
    }
    for (const child of scope.children.values()) {
      if (this.showConstants || this.count(child)) box.children.push(this._box(child, box));
    }
    for (const n of scope.nodes) if (this._shows(n)) box.children.push(this._leaf(n, box));
    box.children.sort((a, b) => a.order - b.order);
    this._arrange(box);
    return box;
  }

  /** The nodes in a scope that are no constants. */
  count(scope) {
    if (scope.visible === undefined) scope.visible = scope.all().filter((n) => !this.stage.isConstant(n)).length;
    return scope.visible;
  }

  _leaf(n, parent) {
    let label = this.labels.get(n);
    if (!label) this.labels.set(n, (label = leafLabel(this.stage, n)));
    return { scope: null, node: n, parent, open: false, children: [], edges: [], x: 0, y: 0, order: n, ...label };
  }

  _arrange(box) {
    const isRoot = !box.scope.parent;
    const edges = this._edges(box);
    const signature = box.children.map((c) => `${c.scope ? c.scope.id : c.node}:${c.w}x${c.h}`).join();
    let found = this.layouts.get(box.scope.id);
    if (!found || found.signature !== signature) {
      const phased = isRoot && box.children.length > 1 && box.children.every((c) => c.scope?.kind === "phase");
      const result = phased ? sideBySide(box.children, edges) : layered(box.children, edges);
      found = { signature, result, places: box.children.map((c) => [c.x, c.y]) };
      this.layouts.set(box.scope.id, found);
    }
    const top = isRoot ? 0 : HEAD, pad = isRoot ? 0 : PAD;
    const least = isRoot ? 0 : textWidth(box.scope.title, TITLE_FONT) + 60;
    const extra = Math.max(0, least - found.result.w - 2 * pad) / 2;
    box.children.forEach((c, i) => { c.x = found.places[i][0] + pad + extra; c.y = found.places[i][1] + top + pad / 2; });
    box.edges = edges.map((e, k) => ({
      ...e, from: box.children[e.a], to: box.children[e.b],
      points: found.result.routes[k].map(([x, y]) => [x + pad + extra, y + top + pad / 2]),
    }));
    box.title = box.scope.title;
    box.w = found.result.w + 2 * (pad + extra);
    box.h = found.result.h + top + 1.5 * pad;
  }

  /** Edges between a box's children: how many values go from one to the other. */
  _edges(box) {
    const key = `${box.scope.id}|${box.children.length}|${this.showConstants}`;
    if (this.edgesOf.has(key)) return this.edgesOf.get(key);
    const stage = this.stage, scope = box.scope, depth = scope.depth;
    const place = new Map(box.children.map((c, i) => [c.scope || c.node, i]));
    const child = (n) => place.get(stage.scopeOf[n].chain[depth + 1] || n);
    const inside = (n) => stage.scopeOf[n].chain[depth] === scope;
    const found = new Map();
    for (const n of scope.all()) {
      const b = child(n);
      if (b === undefined) continue;
      for (const value of new Set(stage.args[n])) {
        const p = stage.producer[value];
        if (p < 0 || !this._shows(p) || !inside(p)) continue;
        const a = child(p);
        if (a === undefined || a === b) continue;
        const id = a * box.children.length + b;
        if (!found.has(id)) found.set(id, { a, b, values: new Set() });
        found.get(id).values.add(value);
      }
    }
    const edges = [...found.values()];
    this.edgesOf.set(key, edges);
    return edges;
  }

  /** Absolute places. */
  _settle(box, x, y) {
    box.x += x;
    box.y += y;
    for (const e of box.edges) e.points = e.points.map(([px, py]) => [px + box.x, py + box.y]);
    if (box.scope) this.ofScope.set(box.scope.id, box); else this.ofNode.set(box.node, box);
    for (const child of box.children) this._settle(child, box.x, box.y);
  }

  /** The box in which a node is to be seen: its own, or that of a folded scope around it. */
  boxOf(n) {
    const own = this.ofNode.get(n);
    if (own) return own;
    for (const scope of [...this.stage.scopeOf[n].chain].reverse()) {
      const box = this.ofScope.get(scope.id);
      if (box) return box;
    }
    return null;
  }
}

/** The parts of a training step, from left to right. */
function sideBySide(boxes, edges) {
  let x = 0;
  for (const box of boxes) { box.x = x; box.y = 0; x += box.w + PHASE_GAP; }
  const h = Math.max(...boxes.map((b) => b.h));
  const routes = edges.map(({ a, b }) => {
    const [from, to] = [boxes[a], boxes[b]];
    const right = to.x > from.x;
    const start = [right ? from.x + from.w : from.x, 13], end = [right ? to.x : to.x + to.w, 13];
    return Math.abs(a - b) > 1 ? [start, [start[0] + 20, -16], [end[0] - 20, -16], end] : [start, end];
  });
  return { w: x - PHASE_GAP, h, routes, sideways: true };
}

/** The lines in a node's box: op with its constants, type, and the graph's inputs and outputs that it touches. */
function leafLabel(stage, n) {
  const op = stage.opOf(n);
  const args = stage.args[n];
  const hasConstants = args.some((v) => stage.constantOf(v) !== undefined);
  let title = op.name;
  if (op.constant !== undefined) title = op.constant;
  else if (hasConstants && args.length > 1) title += ` (${args.map((v) => stage.constantOf(v) ?? "·").join(", ")})`;
  else if (op.fields) title += " " + op.fields.replace(/(shape|dtype)=(\([^)]*\)|\w+)(, )?/g, "").replace(/\w+=/g, "").trim();
  const lines = [clip(stage.values(n).map((v) => stage.type(v)).join(" "), LONGEST_LINE)];
  const inputs = [...new Set(args)].filter((v) => v < stage.inputs.length).map((v) => stage.label(v).slice(1));
  if (inputs.length) lines.push(clip(`◂ ${inputs.join(", ")}`, LONGEST_LINE));
  const outputs = stage.values(n).filter((v) => stage.outputOf.has(v)).map((v) => outputName(stage, v));
  if (outputs.length) lines.push(clip(`▸ ${outputs.join(", ")}`, LONGEST_LINE));
  title = clip(title.trim(), LONGEST_TITLE);
  const w = Math.max(textWidth(title, TITLE_FONT), ...lines.map((l) => textWidth(l, SMALL_FONT))) + 20;
  return { title, lines, w: Math.max(60, w), h: 22 + 13 * lines.length };
}

/** What becomes of an output: "output 3", or the input that it is written to. */
function outputName(stage, value) {
  const k = stage.outputOf.get(value)[0];
  const written = stage.data.execution?.writes[k];
  return written === undefined ? `output ${k}` : stage.label(written).slice(1);
}
