// The table of steps, and a stage as text.

class StepsTable {
  constructor(element) {
    this.element = element;
    this.by = "n";
    this.down = false;
    element.addEventListener("click", (e) => {
      const head = e.target.closest("th");
      if (head) {
        this.down = this.by === head.dataset.by ? !this.down : head.dataset.by !== "n";
        this.by = head.dataset.by;
        this.show();
        return;
      }
      const row = e.target.closest("tr[data-step]");
      if (row) app.select({ kind: "step", k: Number(row.dataset.step) });
    });
  }

  rows() {
    const last = page.stage(page.data.stages.length - 1);
    return page.data.execution.steps.map((s, n) => ({
      n, kind: s.kind, title: s.title, shape: s.shape, module: mainScope(last, s.nodes), nodes: s.nodes.length, bytes: s.bytes,
      flops: s.flops, time: s.measured ?? s.estimate,
    }));
  }

  show() {
    const run = page.data.execution;
    if (!run) { this.element.innerHTML = '<p class="note">Nothing was compiled.</p>'; return; }
    this.all ||= this.rows();
    const rows = [...this.all].sort((a, b) => (a[this.by] < b[this.by] ? -1 : a[this.by] > b[this.by] ? 1 : a.n - b.n) * (this.down ? -1 : 1));
    const most = Math.max(...this.all.map((r) => r.time), 1e-9), total = this.all.reduce((sum, r) => sum + r.time, 0);
    const heads = [["n", "#"], ["title", "computes"], ["time", run.measured ? "measured" : "estimate"], ["module", "mostly of"], ["shape", "over"],
      ["bytes", "moves"], ["flops", "ops"], ["nodes", "nodes"]];
    const note = run.measured
      ? `${rows.length} steps, each timed by itself: ${duration(total)} together; a whole call takes ${duration(run.measured.call)} (medians of ${run.measured.runs} runs).`
      : `${rows.length} steps; times are estimates for one thread. Measure with <span class="mono">dump(folder, measure=True)</span>.`;
    const body = rows.map((r) => `<tr data-step="${r.n}" class="${app.selection?.kind === "step" && app.selection.k === r.n ? "chosen" : ""}">
      <td class="right">${r.n}</td><td title="${escapeHtml(r.title)}"><span class="swatch" style="background:${stepColor(r.n)}"></span>${r.kind === "kernel" ? "" : `<b>${r.kind}</b> `}${escapeHtml(r.title)}</td>
      <td class="time"><span class="bar" style="width:${Math.max(1, Math.round(46 * r.time / most))}px"></span> ${duration(r.time)}</td>
      <td title="${escapeHtml(r.module)}">${escapeHtml(r.module)}</td><td class="mono" title="${escapeHtml(r.shape)}">${escapeHtml(r.shape)}</td>
      <td class="right">${amount(r.bytes, "B")}</td><td class="right">${amount(r.flops)}</td><td class="right">${r.nodes}</td></tr>`);
    this.element.innerHTML = `<p class="note">${note}</p><table><thead><tr>${heads.map(([by, text]) => `<th data-by="${by}" class="${["n", "nodes", "bytes", "flops", "time"].includes(by) ? "right" : ""}">${text}${by === this.by ? (this.down ? " ▾" : " ▴") : ""}</th>`).join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
    this.element.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }
}

/** The scope that most nodes are in. */
function mainScope(stage, nodes) {
  const counts = new Map();
  for (const n of nodes) if (!stage.isConstant(n)) counts.set(stage.scopeOf[n].path, (counts.get(stage.scopeOf[n].path) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] || "";
}

const LINE = 18; // pixels, as in the style sheet

class TextView {
  constructor(element) {
    this.element = element;
    element.addEventListener("scroll", () => this.fill());
    new ResizeObserver(() => this.fill()).observe(element);
    element.addEventListener("click", (e) => {
      const line = e.target.closest(".ln[data-node]");
      if (line) app.select({ kind: "node", n: Number(line.dataset.node) });
    });
  }

  show(reveals) {
    const { stage } = app;
    this.lines = stage.size + 2;
    this.element.innerHTML = `<div class="sheet" style="height:${this.lines * LINE + 20}px"></div>`;
    this.sheet = this.element.firstChild;
    if (reveals && app.selection?.kind === "node") this.element.scrollTop = (app.selection.n + 1) * LINE - this.element.clientHeight / 2;
    this.fill();
  }

  /** Only the lines in sight are there. */
  fill() {
    if (!this.sheet || this.element.hidden) return;
    const first = Math.max(0, Math.floor(this.element.scrollTop / LINE) - 20);
    const last = Math.min(this.lines, first + Math.ceil(this.element.clientHeight / LINE) + 40);
    const parts = [];
    for (let k = first; k < last; k++) parts.push(this.line(k));
    this.sheet.innerHTML = parts.join("");
  }

  line(k) {
    const { stage } = app, n = k - 1;
    const at = `style="top:${k * LINE + 6}px"`;
    if (k === 0) return `<div class="ln" ${at}>graph ${escapeHtml(page.data.name)}(${stage.inputs.length} inputs) {</div>`;
    if (k === this.lines - 1) return `<div class="ln" ${at}>  return ${stage.outputs.map((v) => escapeHtml(stage.label(v))).join(", ")} }</div>`;
    const op = stage.opOf(n), state = stage.doomed.has(n) ? "removed" : stage.state[n];
    const sign = { added: "+", rewired: "~", removed: "−", "": " " }[state];
    const fields = op.fields ? `[${escapeHtml(clip(op.fields, 120))}]` : "";
    const chosen = app.selection?.kind === "node" && app.selection.n === n ? "chosen" : "";
    return `<div class="ln ${chosen}" data-node="${n}" ${at}><span class="${state}">${sign}</span> ${stage.values(n).map((v) => escapeHtml(stage.label(v))).join(", ")} = <b>${escapeHtml(op.name)}</b>${fields}(${stage.args[n].map((v) => escapeHtml(stage.label(v))).join(", ")}) <span class="type">: ${stage.values(n).map((v) => escapeHtml(stage.type(v))).join(", ")}</span> <span class="no">${escapeHtml(stage.scopeOf[n].path)}</span></div>`;
  }
}
