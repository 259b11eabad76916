// Finding nodes, modules, inputs and steps by any words of theirs.

const MOST_FOUND = 80;

class Search {
  constructor(input, list) {
    Object.assign(this, { input, list, results: [], at: 0 });
    input.addEventListener("input", () => this.run());
    input.addEventListener("focus", () => this.run());
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        this.at = Math.max(0, Math.min(this.results.length - 1, this.at + (e.key === "ArrowDown" ? 1 : -1)));
        this.show();
        e.preventDefault();
      } else if (e.key === "Enter") this.choose(this.at);
      else if (e.key === "Escape") { input.value = ""; this.close(); app.graph.canvas.focus(); }
    });
    list.addEventListener("pointerdown", (e) => {
      const item = e.target.closest("li");
      if (item) { this.choose(Number(item.dataset.k)); e.preventDefault(); }
    });
  }

  /** What can be found on a stage: [words, title, sub, kind, selection]. */
  entries(stage) {
    if (stage.entries) return stage.entries;
    const found = [];
    for (const scope of stage.scopes.values()) {
      if (scope.parent) found.push([`${scope.path} ${scope.title} module`, scope.title, scope.parent.path, scope.kind, { kind: "scope", id: scope.id }]);
    }
    stage.inputs.forEach(([name], v) => found.push([`${name} %${v} input ${stage.type(v)}`, stage.label(v), stage.type(v), "input", { kind: "value", v }]));
    for (let n = 0; n < stage.size; n++) {
      const op = stage.opOf(n), place = stage.placeOf(n), label = stage.label(stage.first[n]);
      const where = place ? `${place.file.path.split(/[\\/]/).pop()}:${place.line}` : "";
      const type = stage.values(n).map((v) => stage.type(v)).join(" ");
      found.push([`${label} ${op.name} ${op.fields || ""} ${type} ${stage.scopeOf[n].path} ${where} ${stage.state[n]} ${stage.stepsOf[n].map((k) => `step ${k}`).join(" ")}`,
        `${label} = ${op.name}`, `${type}  ${stage.scopeOf[n].path}`, where, { kind: "node", n }]);
    }
    (page.data.execution?.steps || []).forEach((s, k) => found.push([`step ${k} ${s.kind} ${s.title} ${s.shape}`, `step ${k}`, s.title, s.kind, { kind: "step", k }]));
    stage.entries = found.map((e) => [e[0].toLowerCase(), ...e.slice(1)]);
    return stage.entries;
  }

  run() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.at = 0;
    this.results = [];
    this.more = 0;
    if (words.length) { // whole words first
      const found = this.entries(app.stage).filter((entry) => words.every((w) => entry[0].includes(w)));
      const whole = found.filter((entry) => { const parts = entry[0].split(/[\s/]+/); return words.every((w) => parts.includes(w)); });
      const first = new Set(whole);
      const sorted = [...whole, ...found.filter((entry) => !first.has(entry))];
      this.results = sorted.slice(0, MOST_FOUND);
      this.more = sorted.length - this.results.length;
    }
    this.show();
  }

  show() {
    const has = this.input.value.trim() !== "";
    this.list.hidden = !has;
    this.input.setAttribute("aria-expanded", String(has));
    if (!has) return;
    this.list.innerHTML = this.results.map(([, title, sub, kind], k) => `<li role="option" data-k="${k}" aria-selected="${k === this.at}"><b class="mono">${escapeHtml(clip(title, 34))}</b><span>${escapeHtml(sub)}</span><span>${escapeHtml(kind)}</span></li>`).join("")
      + (this.more ? `<li><span></span><span>and ${this.more} more</span><span></span></li>` : "") + (this.results.length ? "" : "<li>nothing</li>");
    this.list.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  choose(k) {
    const entry = this.results[k];
    if (!entry) return;
    this.close();
    app.select(entry[4], true);
    app.graph.canvas.focus();
  }
  close() { this.list.hidden = true; this.input.setAttribute("aria-expanded", "false"); }
}
