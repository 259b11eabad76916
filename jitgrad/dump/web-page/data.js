// The page's data: unpacking it, and a stage with what follows from it (producers, users, states, scopes).

/** The JSON in the element `id`: compressed, in base64. */
async function unpack(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const MANY_LEAVES = 10; // in a scope with sub-scopes, or of several lines: they are grouped by line
const CHUNK = 90; // leaves laid out together

/** A module, a line, or a part of a long list of nodes. `nodes` are its own, `count` those below it too. */
class Scope {
  constructor(id, name, parent, kind) {
    Object.assign(this, { id, name, parent, kind, children: new Map(), nodes: [], count: 0, first: Infinity });
    this.chain = parent ? [...parent.chain, this] : [this];
    this.depth = this.chain.length - 1;
  }
  child(key, name, kind) {
    let found = this.children.get(key);
    if (!found) {
      const step = key.replace(/[%/]/g, encodeURIComponent); // so that ids of different paths differ
      found = new Scope(this.parent ? `${this.id}/${step}` : step, name, this, kind);
      this.children.set(key, found);
    }
    return found;
  }
  /** All nodes below, in order. */
  all() {
    const found = [...this.nodes];
    for (const child of this.children.values()) found.push(...child.all());
    return found.sort((a, b) => a - b);
  }
  /** The name, and for a module what it is about: "0 · conv". */
  get title() {
    const hint = this.kind === "module" ? page.hint(this.chain.slice(1).map((s) => s.name)) : "";
    return hint && hint !== this.name ? `${this.name} · ${hint}` : this.name;
  }
  /** Names from the outermost scope on. */
  get path() {
    return this.chain.slice(1).map((s) => s.name).join(" / ");
  }
}

/** One stage: a graph, whose nodes and values are numbers. */
class Stage {
  constructor(data, index) {
    this.data = data;
    this.index = index;
    Object.assign(this, data.stages[index]);
    this.size = this.op.length;
    this.isLast = index === data.stages.length - 1;
    this.first = new Int32Array(this.size); // the number of each node's first result
    this.producer = []; // by value: the node, -1 for inputs
    this.typeOf = []; // by value: the number of its type
    for (const [, type] of this.inputs) { this.producer.push(-1); this.typeOf.push(type); }
    for (let n = 0; n < this.size; n++) {
      this.first[n] = this.producer.length;
      for (const type of this.results[n]) { this.producer.push(n); this.typeOf.push(type); }
    }
    this.users = this.producer.map(() => []);
    this.args.forEach((args, n) => { for (const v of new Set(args)) this.users[v].push(n); });
    this.outputOf = new Map();
    this.outputs.forEach((v, k) => { if (!this.outputOf.has(v)) this.outputOf.set(v, []); this.outputOf.get(v).push(k); });
    this._states();
    this._steps();
    this._tree();
  }

  opOf(n) { return this.data.ops[this.op[n]]; }
  isConstant(n) { return this.opOf(n).constant !== undefined; }
  constantOf(value) { const n = this.producer[value]; return n >= 0 ? this.opOf(n).constant : undefined; }
  type(value) { return this.data.types[this.typeOf[value]][0]; }
  bytes(value) { return this.data.types[this.typeOf[value]][1]; }
  label(value) {
    const name = value < this.inputs.length ? this.inputs[value][0] : this.names[value];
    return `%${name || value}`;
  }
  values(n) { return this.results[n].map((_, k) => this.first[n] + k); }
  bytesOf(n) {
    let sum = 0;
    for (const v of new Set(this.args[n])) sum += this.bytes(v);
    for (const v of this.values(n)) sum += this.bytes(v);
    return sum;
  }
  placeOf(n) {
    const place = this.data.places[this.place[n]];
    return place && { file: this.data.files[place[0]], line: place[1], function: place[2] };
  }

  /** What this stage's pass did to each node ("added", "rewired" or ""), and what the next one will remove. */
  _states() {
    this.state = new Array(this.size).fill("");
    if (this.origin) {
      this.origin.forEach((o, n) => { if (o < 0) this.state[n] = "added"; });
      for (const n of this.rewired) this.state[n] = "rewired";
    }
    const next = this.data.stages[this.index + 1];
    this.doomed = new Set(next ? next.removed : []);
    this.successor = new Map();
    if (next) next.origin.forEach((o, n) => { if (o >= 0) this.successor.set(o, n); });
  }

  /**
   * The steps that compute each node; the first is where its result is stored, or where it is used first. A node that a
   * later pass replaced (`replaced`) has those of what came in its place: new nodes of the same module and line.
   */
  _steps() {
    this.stepsOf = Array.from({ length: this.size }, () => []);
    this.replaced = new Set();
    const run = this.data.execution;
    if (!run) return;
    if (this.isLast) {
      run.steps.forEach((step, k) => { for (const n of step.nodes) this.stepsOf[n].push(k); });
      return;
    }
    const next = page.stage(this.index + 1), fresh = new Map();
    next.state.forEach((state, n) => {
      const key = `${next.scope[n]} ${next.place[n]}`;
      if (state === "added") fresh.set(key, new Set([...(fresh.get(key) || []), ...next.stepsOf[n]]));
    });
    for (let n = 0; n < this.size; n++) {
      const after = this.successor.get(n);
      if (after !== undefined) {
        this.stepsOf[n] = next.stepsOf[after];
        if (next.replaced.has(after)) this.replaced.add(n);
      } else if (!this.isConstant(n) && this.opOf(n).kind === "composite") {
        this.stepsOf[n] = [...(fresh.get(`${this.scope[n]} ${this.place[n]}`) || [])].sort((a, b) => a - b);
        this.replaced.add(n);
      }
    }
  }

  _tree() {
    this.root = new Scope("", this.data.name, null, "root");
    const paths = this.data.scopes.map((path) => {
      let scope = this.root;
      path.forEach((name, k) => { scope = scope.child(name, name, k === 0 && PHASES.has(name) ? "phase" : "module"); });
      return scope;
    });
    for (let n = 0; n < this.size; n++) paths[this.scope[n]].nodes.push(n);
    this._prune(this.root);
    this._group(this.root);
    this.scopeOf = new Array(this.size);
    this.scopes = new Map();
    this._finish(this.root);
  }

  /** Leave out scopes of other stages. */
  _prune(scope) {
    for (const [key, child] of [...scope.children]) {
      this._prune(child);
      if (!child.nodes.length && !child.children.size) scope.children.delete(key);
    }
  }

  /** Group a scope's own nodes by line, and long lists of them into parts, so that each layout is small. */
  _group(scope) {
    for (const child of [...scope.children.values()]) this._group(child);
    if (scope.nodes.length > MANY_LEAVES) {
      const lines = new Map();
      for (const n of scope.nodes) {
        if (!lines.has(this.place[n])) lines.set(this.place[n], []);
        lines.get(this.place[n]).push(n);
      }
      if (lines.size > 1 || (scope.children.size && this.place[scope.nodes[0]] >= 0)) {
        scope.nodes = [];
        for (const [place, nodes] of lines) {
          if (place < 0 || nodes.filter((n) => !this.isConstant(n)).length < 3) scope.nodes.push(...nodes);
          else scope.child(`line ${this._lineName(place)}`, this._lineText(place), "line").nodes = nodes;
        }
        scope.nodes.sort((a, b) => a - b);
      }
    }
    for (const child of [scope, ...scope.children.values()]) if (child.nodes.length > 1.6 * CHUNK) this._chunk(child);
  }
  _chunk(scope) {
    const parts = Math.ceil(scope.nodes.length / CHUNK);
    const size = Math.ceil(scope.nodes.length / parts);
    const nodes = scope.nodes;
    scope.nodes = [];
    for (let k = 0; k < parts; k++) {
      scope.child(`part ${k + 1}`, `part ${k + 1} of ${parts}`, "part").nodes = nodes.slice(k * size, (k + 1) * size);
    }
  }
  _lineName(place) {
    const [file, line] = this.data.places[place];
    return `${this.data.files[file].path.split(/[\\/]/).pop()}:${line}`;
  }
  _lineText(place) {
    const [file, line] = this.data.places[place];
    const text = (this.data.files[file].lines[line] || "").trim();
    return text ? (text.length > 44 ? text.slice(0, 42) + "…" : text) : this._lineName(place);
  }
  _finish(scope) {
    this.scopes.set(scope.id, scope);
    for (const n of scope.nodes) { this.scopeOf[n] = scope; scope.count++; scope.first = Math.min(scope.first, n); }
    for (const child of scope.children.values()) {
      this._finish(child);
      scope.count += child.count;
      scope.first = Math.min(scope.first, child.first);
    }
  }
}

/** By module, without the part of the step: the composites that its forward pass was captured as, or its rarest op. */
function moduleHints(data) {
  const found = new Map(), stage = data.stages[0], counts = new Map();
  for (const o of stage.op) counts.set(o, (counts.get(o) || 0) + 1);
  stage.op.forEach((o, n) => {
    const op = data.ops[o], path = data.scopes[stage.scope[n]];
    if (path[0] === "backward" || path[0] === "update" || op.constant !== undefined) return;
    const key = (path[0] === "forward" ? path.slice(1) : path).join("/");
    if (!found.has(key)) found.set(key, { composites: new Set(), ops: new Map() });
    if (op.kind === "composite" || op.kind === "product") found.get(key).composites.add(op.name);
    else found.get(key).ops.set(op.name, Math.min(counts.get(o), found.get(key).ops.get(op.name) ?? Infinity));
  });
  const hints = new Map();
  for (const [key, { composites, ops }] of found) {
    const names = composites.size ? [...composites] : [...ops.keys()].sort((a, b) => ops.get(a) - ops.get(b));
    if (key) hints.set(key, names.length <= 2 ? names.join(", ") : `${names[0]}, …`);
  }
  return hints;
}

const PHASES = new Set(["forward", "backward", "update"]);

/** A number with a prefix: 1234567 -> "1.23 M". */
function amount(x, unit = "") {
  for (const [size, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(x) >= size) return `${Number((x / size).toPrecision(3))} ${prefix}${unit}`;
  }
  return `${Number(x.toPrecision(3))}${unit ? " " + unit : ""}`;
}

/** Microseconds, in the unit that fits. */
function duration(us) {
  return us >= 1000 ? `${Number((us / 1000).toPrecision(3))} ms` : `${Number(us.toPrecision(us < 1 ? 1 : 3))} µs`;
}
