// The page's state, what changes it, and the keys.

const VIEWS = { graph: "Graph", steps: "Steps", memory: "Memory", text: "Text" };
const SMALLEST = 0.42; // scale to begin with, so that names can be read
const FEW = 60; // nodes that are shown all
const MOST = 200; // of one module that holds all of them
const TRIES = 80; // scopes that may be unfolded to begin with
const KEYS = [
  ["1 2 3 4", "graph, steps, memory, text"], ["[  ]", "stage before, stage after"], ["/", "find"], ["arrows", "along the graph"],
  ["Enter", "fold or unfold"], ["u", "the module around"], ["e  f", "unfold all of it, fold all of it"], ["0", "fit"], ["+  −", "zoom"],
  ["c", "next colours"], ["k", "constants as nodes"], ["t", "dark or light"], ["Esc", "select nothing"],
];

/** The data, and the stages made of it when first looked at. */
const page = {
  data: null, code: null, stages: [],
  hint(path) {
    this.hints ||= moduleHints(this.data);
    return this.hints.get((PHASES.has(path[0]) ? path.slice(1) : path).join("/")) || "";
  },
  stage(k) { return (this.stages[k] ||= new Stage(this.data, k)); },
};

const app = {
  selection: null, view: "graph", color: "kernel", expanded: new Set(), constants: false, builders: [],

  get stage() { return page.stage(this.index); },

  start() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const last = page.data.stages.length - 1;
    this.index = Math.min(last, Number(wanted.get("stage") ?? last));
    setTheme(wanted.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    this.view = VIEWS[wanted.get("view")] ? wanted.get("view") : "graph";
    this.color = COLOR_MODES[wanted.get("color")] ? wanted.get("color") : page.data.execution ? "kernel" : "kind";
    this.constants = wanted.get("constants") === "1";
    this.outline = new Outline(byId("outline"));
    this.details = new Details(byId("details"));
    this.steps = new StepsTable(byId("steps-view"));
    this.text = new TextView(byId("text-view"));
    this.memory = new MemoryView(byId("memory"), byId("memory-text"), byId("memory-hint"));
    this.search = new Search(byId("search"), byId("found"));
    this.graph = new GraphCanvas(byId("canvas"));
    header();
    this.coloring = new Coloring(this.stage, this.color);
    this._shares = new Map();
    if (wanted.has("open")) this.expanded = new Set(wanted.get("open") === "all" ? this.stage.scopes.keys() : wanted.get("open").split("|"));
    else this.expandToFit();
    this.refresh();
    this.graph.fit();
    this.graph.paint();
    this.setView(this.view);
    this.selectWanted(wanted);
  },

  selectWanted(wanted) {
    const [kind, argument] = (wanted.get("select") || "").split(/:(.*)/s);
    if (argument) this.select(kind === "scope" ? { kind, id: argument } : kind === "step" ? { kind, k: Number(argument) } : { kind: "node", n: Number(argument) }, true);
  },

  /** Everything after a change of stage, folding or colours. */
  refresh() {
    this.coloring = new Coloring(this.stage, this.color);
    this._shares = new Map();
    this.scene();
    byId("legend").innerHTML = this.coloring.legend();
    this.outline.show();
    this.details.show();
    stageButtons();
    if (this.view === "steps") this.steps.show();
    if (this.view === "text") this.text.show();
    if (this.view === "memory") this.memory.show();
    this.remember();
  },

  /**
   * Unfold from the outside in, as long as all of it can be read at once; of modules only those that have some. One
   * that holds everything is unfolded in any case: a single box tells nothing.
   */
  expandToFit() {
    this.builder = this.builders[this.index] ||= new SceneBuilder(this.stage);
    let level = [...this.stage.root.children.values()], tries = 0;
    const few = this.stage.size <= FEW, all = this.stage.size;
    while (level.length && tries < TRIES) {
      const next = [];
      for (const scope of level.sort((a, b) => a.count - b.count)) {
        const whole = scope.count === all && scope.nodes.length <= MOST;
        if (tries++ >= TRIES || this.builder.count(scope) < 2) continue;
        if (!(few || whole || scope.children.size || scope.kind === "phase")) continue;
        this.expanded.add(scope.id);
        const root = this.builder.build(this.expanded, this.constants);
        if (whole || this.graph.scaleFor(root) >= SMALLEST) next.push(...scope.children.values());
        else this.expanded.delete(scope.id);
      }
      level = next;
    }
  },

  scene() {
    this.builder = this.builders[this.index] ||= new SceneBuilder(this.stage);
    this.graph.root = this.builder.build(this.expanded, this.constants);
    this.graph.draw();
  },

  setStage(k) {
    if (k < 0 || k >= page.data.stages.length || k === this.index) return;
    const old = this.selection, before = this.stage, step = k - this.index;
    this.index = k;
    this.selection = null;
    if (old?.kind === "node") {
      const n = step === 1 ? before.successor.get(old.n) : step === -1 && before.origin ? before.origin[old.n] : -1;
      if (n >= 0) this.selection = { kind: "node", n };
    } else if (old?.kind !== "scope" || this.stage.scopes.has(old.id)) this.selection = old;
    this.refresh();
    if (!this.graph.moved) this.graph.fit();
    this.search.close();
  },

  setView(view) {
    this.view = view;
    for (const name of Object.keys(VIEWS)) byId(`${name}-view`).hidden = name !== view;
    for (const b of byId("views").children) b.setAttribute("aria-selected", String(b.dataset.view === view));
    if (view === "steps") this.steps.show();
    if (view === "text") this.text.show(true);
    if (view === "memory") this.memory.show();
    if (view === "graph") this.graph.draw();
    this.remember();
  },

  setColor(mode) {
    this.color = mode;
    byId("color").value = mode;
    this.refresh();
  },

  select(selection, reveals = false) {
    if (selection?.kind === "step" && !page.data.execution) return;
    if (selection?.kind === "step" && this.view === "graph" && !this.stage.isLast) this.setStage(page.data.stages.length - 1);
    this.selection = selection;
    if (reveals && selection) this.revealSelection();
    this.details.show();
    this.outline.show();
    this.graph.draw();
    if (this.view === "steps") this.steps.show();
    if (this.view === "memory") this.memory.draw();
    if (this.view === "text") this.text[reveals ? "show" : "fill"](true);
    byId("said").textContent = this.spoken();
    this.remember();
  },
  selectBox(box) {
    this.select(box.scope ? { kind: "scope", id: box.scope.id } : { kind: "node", n: box.node });
  },

  /** Unfold what hides the selection, and bring it into sight. */
  revealSelection() {
    const chosen = this.selection;
    const open = (scope) => { for (const s of scope.chain.slice(1)) this.expanded.add(s.id); };
    if (chosen.kind === "node") {
      if (this.stage.isConstant(chosen.n) && !this.constants) return;
      open(this.stage.scopeOf[chosen.n]);
    } else if (chosen.kind === "scope") {
      const scope = this.stage.scopes.get(chosen.id);
      if (!scope) { this.selection = null; return; }
      if (scope.parent) open(scope.parent);
    } else return;
    this.scene();
    const box = chosen.kind === "node" ? this.builder.ofNode.get(chosen.n) : this.builder.ofScope.get(chosen.id);
    if (box) this.graph.reveal(box);
  },

  toggle(scope) {
    const before = this.builder.ofScope.get(scope.id);
    const at = before && [before.x + before.w / 2, before.y];
    if (this.expanded.has(scope.id)) this.expanded.delete(scope.id); else { this.expanded.add(scope.id); openSingle(scope, this.expanded); }
    this.refresh();
    const after = this.builder.ofScope.get(scope.id);
    if (at && after) { // the title stays where it was
      this.graph.view.x += this.graph.view.k * (at[0] - after.x - after.w / 2);
      this.graph.view.y += this.graph.view.k * (at[1] - after.y);
      this.graph.moved = true;
    }
    this.graph.draw();
  },
  foldAll(open) {
    const scope = this.selection?.kind === "scope" ? this.stage.scopes.get(this.selection.id) : this.stage.root;
    const walk = (s) => { if (s.parent) this.expanded[open ? "add" : "delete"](s.id); for (const c of s.children.values()) walk(c); };
    walk(scope);
    this.refresh();
    if (scope === this.stage.root) this.graph.fit(); else this.graph.reveal(this.builder.ofScope.get(scope.id));
    this.graph.draw();
  },

  // What drawing asks

  isSelected(box) {
    const s = this.selection;
    return !!s && (box.scope ? s.kind === "scope" && s.id === box.scope.id : s.kind === "node" && s.n === box.node);
  },
  stepNodes() {
    const s = this.selection;
    if (s?.kind !== "step" || !this.stage.isLast) return null;
    if (this._stepOf !== s.k) { this._stepOf = s.k; this._stepNodes = new Set(page.data.execution.steps[s.k].nodes); }
    return this._stepNodes;
  },
  dims(box) {
    const nodes = this.stepNodes();
    if (!nodes) return false;
    return box.scope ? !box.scope.all().some((n) => nodes.has(n)) : !nodes.has(box.node);
  },
  dimsEdge(e) { return this.stepNodes() !== null && (this.dims(e.from) || this.dims(e.to)); },
  shares(scope) {
    if (!this._shares.has(scope)) this._shares.set(scope, this.coloring.shares(scope));
    return this._shares.get(scope);
  },
  scopeSubtitle(scope) {
    const key = `sub ${scope.id}`;
    if (!this._shares.has(key)) {
      const nodes = scope.all(), count = this.builder.count(scope), parts = [`${count} node${count === 1 ? "" : "s"}`];
      const steps = new Set(nodes.flatMap((n) => this.stage.stepsOf[n].slice(0, 1)));
      if (steps.size) parts.push(`${steps.size} step${steps.size > 1 ? "s" : ""}`);
      const { values, show } = this.coloring.costs;
      if (steps.size && this.stage.isLast) parts.push(show(nodes.reduce((sum, n) => sum + values[n], 0)));
      this._shares.set(key, parts.join(" · "));
    }
    return this._shares.get(key);
  },
  /** Lines to what is selected from its operands, and from it to its users. */
  links() {
    const s = this.selection, { stage, builder } = this, found = [];
    const add = (a, b, color) => { if (a && b && a !== b && found.length < 150) found.push({ from: a, to: b, color }); };
    if (s?.kind === "node") {
      const own = builder.ofNode.get(s.n);
      if (!own) return found;
      for (const v of new Set(stage.args[s.n])) if (stage.producer[v] >= 0) add(builder.boxOf(stage.producer[v]), own, "in");
      for (const v of stage.values(s.n)) for (const u of stage.users[v]) add(own, builder.boxOf(u), "out");
    } else if (s?.kind === "value") {
      const boxes = new Set(stage.users[s.v].map((u) => builder.boxOf(u)));
      for (const box of boxes) found.push({ from: { x: box.x - 40, y: box.y - 40, w: 0, h: 0 }, to: box, color: "in" });
    }
    return found;
  },
  spoken() {
    const s = this.selection, { stage } = this;
    if (!s) return "nothing selected";
    if (s.kind === "node") return `${stage.opOf(s.n).name}, ${stage.type(stage.first[s.n])}, in ${stage.scopeOf[s.n].path}`;
    if (s.kind === "scope") return `${stage.scopes.get(s.id)?.path}, ${stage.scopes.get(s.id)?.count} nodes, ${this.expanded.has(s.id) ? "unfolded" : "folded"}`;
    return s.kind === "step" ? `step ${s.k}, ${page.data.execution.steps[s.k].title}` : `input ${stage.label(s.v)}`;
  },
  hint(box, px, py) {
    const hint = byId("hint");
    hint.hidden = !box;
    if (!box) return;
    const { stage } = this;
    if (box.node >= 0) {
      const n = box.node, place = stage.placeOf(n), text = place && (place.file.lines[place.line] || "").trim();
      hint.innerHTML = `<b class="mono">${escapeHtml(stage.label(stage.first[n]))} = ${escapeHtml(stage.opOf(n).name)}</b> <span class="mono soft">${escapeHtml(stage.type(stage.first[n]))}</span>`
        + (text ? `<br><span class="mono">${escapeHtml(clip(text, 70))}</span>` : "") + stage.stepsOf[n].slice(0, 1).map((k) => `<br>step ${k}, ${duration(stepTime(k))}`).join("");
    } else hint.innerHTML = `<b>${escapeHtml(box.scope.path)}</b><br>${escapeHtml(this.scopeSubtitle(box.scope))}`;
    placeHint(hint, px, py, this.graph.canvas);
  },

  /** The state is in the address, so that a view can be passed on. */
  remember() {
    const words = new URLSearchParams();
    if (this.index !== page.data.stages.length - 1) words.set("stage", this.index);
    if (this.view !== "graph") words.set("view", this.view);
    if (this.color !== "kernel") words.set("color", this.color);
    const s = this.selection;
    if (s && s.kind !== "value") words.set("select", `${s.kind}:${s.kind === "scope" ? s.id : s.kind === "step" ? s.k : s.n}`);
    try { history.replaceState(null, "", `#${words}`); } catch { /* some viewers have no history */ }
  },

  /** From the selected box to the next one in a direction. */
  walk(key) {
    const { builder, selection: s } = this;
    const box = s?.kind === "node" ? builder.ofNode.get(s.n) : s?.kind === "scope" ? builder.ofScope.get(s.id) : null;
    let next = null;
    if (!box) next = this.graph.root.children[0];
    else if (key === "ArrowUp" || key === "ArrowDown") {
      const up = key === "ArrowUp";
      const ends = box.parent.edges.filter((e) => (up ? e.to : e.from) === box).map((e) => (up ? e.from : e.to));
      next = ends.sort((a, b) => Math.abs(a.y - box.y) + Math.abs(a.x - box.x) / 4 - Math.abs(b.y - box.y) - Math.abs(b.x - box.x) / 4)[0];
      if (!next && !up && box.open) next = box.children[0];
      if (!next && up && box.parent.scope.parent) next = box.parent;
    } else {
      const right = key === "ArrowRight", middle = (b) => b.x + b.w / 2;
      const others = box.parent.children.filter((b) => b !== box && (right ? middle(b) > middle(box) : middle(b) < middle(box)));
      next = others.sort((a, b) => Math.abs(a.y - box.y) * 3 + Math.abs(middle(a) - middle(box)) - Math.abs(b.y - box.y) * 3 - Math.abs(middle(b) - middle(box)))[0];
    }
    if (next) { this.selectBox(next); this.graph.reveal(next); this.graph.draw(); }
  },
};

const byId = (id) => document.getElementById(id);

/** Scopes with nothing but one scope inside are unfolded together with it. */
function openSingle(scope, expanded) {
  while (scope.children.size === 1 && !scope.nodes.length) { [scope] = scope.children.values(); expanded.add(scope.id); }
}

function setTheme(theme) {
  dark = theme === "dark";
  document.documentElement.dataset.theme = theme;
  readColors();
}

function header() {
  const { data } = page, s = data.summary || {};
  byId("name").textContent = data.name;
  const figures = [`<b>${data.stages[0].op.length}</b> nodes captured`];
  if (data.execution) {
    figures.push(`<b>${data.execution.steps.length}</b> steps, <b>${s.kernels}</b> kernels`, `<b>${amount(s.bytes, "B")}</b> moved`, `<b>${amount(s.flops, "flop")}</b>`, `arena <b>${amount(s.arena, "B")}</b>`);
    if (data.execution.measured) figures.unshift(`<b>${duration(data.execution.measured.call)}</b> a call`);
  }
  byId("figures").innerHTML = figures.join(" · ");
  byId("views").innerHTML = Object.entries(VIEWS).map(([v, name]) => `<button data-view="${v}" role="tab">${name}</button>`).join("");
  byId("views").addEventListener("click", (e) => e.target.dataset.view && app.setView(e.target.dataset.view));
  byId("stages").addEventListener("click", (e) => { const b = e.target.closest("button"); if (b) app.setStage(Number(b.dataset.stage)); });
  byId("color").innerHTML = Object.entries(COLOR_MODES).map(([m, name]) => `<option value="${m}">${name}</option>`).join("");
  byId("color").value = app.color;
  byId("color").addEventListener("change", (e) => app.setColor(e.target.value));
  const click = (id, f) => byId(id).addEventListener("click", f);
  click("fit", () => { app.graph.moved = false; app.graph.fit(); app.graph.draw(); });
  click("zoom-in", () => app.graph.zoom(1.3));
  click("zoom-out", () => app.graph.zoom(1 / 1.3));
  click("unfold", () => app.foldAll(true));
  click("fold", () => app.foldAll(false));
  click("theme", () => { setTheme(dark ? "light" : "dark"); app.refresh(); });
  click("help-button", showHelp);
  document.addEventListener("keydown", onKey);
  for (const handle of document.querySelectorAll(".handle")) dragHandle(handle);
}

function stageButtons() {
  const { data } = page;
  byId("stages").innerHTML = data.stages.map((s, k) => `${k ? '<span class="arrow">▸</span>' : ""}<button data-stage="${k}" aria-pressed="${k === app.index}" title="${s.op.length} nodes">${escapeHtml(s.name)}</button>`).join("");
  byId("change").innerHTML = app.index && data.stages[app.index].origin ? changeText(data.stages[app.index]) : "";
}

function showHelp() {
  const dialog = byId("help");
  dialog.innerHTML = `<h3>Keys</h3><dl class="facts">${KEYS.map(([k, what]) => `<dt>${k.split(/ +/).map((x) => `<kbd>${x}</kbd>`).join(" ")}</dt><dd>${what}</dd>`).join("")}</dl>
    <p class="soft">Drag to move, wheel to zoom, Shift and wheel to go sideways. Click selects, a double click folds and unfolds. The address holds
    the view, so that it can be passed on. jitgrad ${escapeHtml(page.data.version)}.</p><form method="dialog"><button>close</button></form>`;
  dialog.showModal();
}

function onKey(e) {
  if (e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey || byId("help").open) return;
  const views = Object.keys(VIEWS), modes = Object.keys(COLOR_MODES), s = app.selection;
  const scope = s?.kind === "scope" ? app.stage.scopes.get(s.id) : s?.kind === "node" ? app.stage.scopeOf[s.n] : null;
  const actions = {
    "[": () => app.setStage(app.index - 1), "]": () => app.setStage(app.index + 1), "/": () => byId("search").focus(),
    "0": () => { app.graph.moved = false; app.graph.fit(); app.graph.draw(); }, "+": () => app.graph.zoom(1.25), "=": () => app.graph.zoom(1.25),
    "-": () => app.graph.zoom(0.8), c: () => app.setColor(modes[(modes.indexOf(app.color) + 1) % modes.length]),
    k: () => { app.constants = !app.constants; app.refresh(); }, t: () => byId("theme").click(), "?": showHelp, Escape: () => app.select(null),
    e: () => app.foldAll(true), f: () => app.foldAll(false),
    u: () => { const up = s?.kind === "scope" ? scope?.parent : scope; if (up?.parent) app.select({ kind: "scope", id: up.id }, true); },
    Enter: () => scope && s.kind === "scope" && app.toggle(scope),
  };
  if (e.key >= "1" && e.key <= "4") app.setView(views[Number(e.key) - 1]);
  else if (e.key.startsWith("Arrow") && app.view === "graph") app.walk(e.key);
  else if (actions[e.key] && !(e.key === "Enter" && e.target.matches("button, .link"))) actions[e.key]();
  else return;
  e.preventDefault();
}

function dragHandle(handle) {
  handle.addEventListener("pointerdown", (e) => {
    handle.setPointerCapture(e.pointerId);
    const isLeft = handle.dataset.for === "outline", panel = byId(handle.dataset.for), start = e.clientX, width = panel.offsetWidth;
    const main = document.querySelector("main");
    const move = (m) => {
      const w = Math.max(120, Math.min(window.innerWidth * 0.7, width + (m.clientX - start) * (isLeft ? 1 : -1)));
      const [left, right] = [byId("outline").offsetWidth, byId("details").offsetWidth];
      main.style.gridTemplateColumns = `${isLeft ? w : left}px 5px minmax(0, 1fr) 5px ${isLeft ? right : w}px`;
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  });
}

unpack("data").then((data) => {
  page.data = data;
  app.start();
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}).catch((error) => {
  document.documentElement.dataset.failed = String(error);
  byId("figures").textContent = `This page could not be drawn: ${error}`;
  throw error;
});
