// The panel on the right: everything about what is selected.

class Details {
  constructor(element) {
    this.element = element;
    this.level = "loops"; // the code that is shown, where a kernel has it
    this.launch = 0;
    element.addEventListener("click", (e) => {
      const link = e.target.closest("[data-go]");
      if (!link) return;
      const [kind, argument] = link.dataset.go.split(/:(.*)/s);
      if (kind === "level") { this.level = argument; this.show(); }
      else if (kind === "launch") { this.launch = Number(argument); this.show(); }
      else if (kind === "stage") { const [s, n] = argument.split(":").map(Number); app.setStage(s); app.select({ kind: "node", n }, true); }
      else if (kind === "copy") navigator.clipboard?.writeText(this.element.querySelector(".code")?.textContent || "");
      else app.select(kind === "scope" ? { kind, id: argument } : kind === "step" ? { kind, k: Number(argument) }
        : kind === "node" ? { kind, n: Number(argument) } : { kind: "value", v: Number(argument) }, true);
    });
  }

  show() {
    const chosen = app.selection;
    if (this.shown !== JSON.stringify(chosen)) { this.launch = 0; this.element.scrollTop = 0; }
    this.shown = JSON.stringify(chosen);
    const html = !chosen ? this.overview() : chosen.kind === "node" ? this.node(chosen.n)
      : chosen.kind === "scope" ? this.scope(app.stage.scopes.get(chosen.id)) : chosen.kind === "step" ? this.step(chosen.k) : this.value(chosen.v);
    this.element.innerHTML = html;
    this.fillCode();
    this.element.querySelector("pre .here")?.scrollIntoView({ block: "nearest" });
  }

  overview() {
    const { stage } = app, { data } = page, run = data.execution;
    const facts = [["stage", `${escapeHtml(stage.name)} (${stage.index + 1} of ${data.stages.length})`], ["nodes", stage.size],
      ["inputs", stage.inputs.length], ["outputs", stage.outputs.length]];
    let html = `<h3>${escapeHtml(data.name)}</h3>${factList(facts)}`;
    if (data.stages.length > 1) {
      html += `<h2>Stages</h2><table><tbody>${data.stages.map((s, k) => `<tr><td><button class="link" data-go="stage:${k}:0">${escapeHtml(s.name)}</button></td>
        <td class="right">${s.op.length} nodes</td><td>${k ? changeText(s) : ""}</td></tr>`).join("")}</tbody></table>`;
    }
    html += this.passed();
    if (run) {
      const costly = run.steps.map((s, k) => [k, s.measured ?? s.estimate]).sort((a, b) => b[1] - a[1]).slice(0, 10);
      const total = run.steps.reduce((sum, s) => sum + (s.measured ?? s.estimate), 0) || 1;
      const title = run.measured ? `Where the time goes (a call: ${duration(run.measured.call)})` : "Where the time goes (estimated)";
      html += `<h2>${title}</h2><table><tbody>${costly.map(([k, t]) => `<tr><td>${stepLink(k)}<br><span class="soft small">${escapeHtml(mainScope(page.stage(data.stages.length - 1), run.steps[k].nodes))}</span></td>
        <td class="right">${duration(t)}</td><td class="right">${(100 * t / total).toFixed(0)}%</td></tr>`).join("")}</tbody></table>`;
      const ms = Object.entries(data.summary.stages_ms || {});
      if (ms.length) html += `<h2>Compiling took</h2>${factList(ms.map(([name, t]) => [name, `${t} ms`]))}`;
    }
    return `${html}<h2>Where to begin</h2><p class="soft">Click a box to see what it is and where it comes from; double-click a
      module to unfold it. <kbd>?</kbd> shows the keys.</p>`;
  }

  /** The ops that this stage's pass added and removed. */
  passed() {
    const { stage } = app;
    if (!stage.origin) return "";
    const before = page.data.stages[stage.index - 1];
    const chips = (ops, sign, state) => {
      const counts = new Map();
      for (const o of ops) counts.set(page.data.ops[o].name, (counts.get(page.data.ops[o].name) || 0) + 1);
      return [...counts].sort((a, b) => b[1] - a[1]).map(([name, x]) => `<span class="chip mono ${state}">${sign}${x} ${escapeHtml(name)}</span>`).join("");
    };
    const added = chips(stage.op.filter((_, n) => stage.state[n] === "added"), "+", "added");
    const removed = chips(stage.removed.map((n) => before.op[n]), "−", "removed");
    return added || removed ? `<h2>What ${escapeHtml(stage.name)} did</h2><p>${added}${removed}</p>` : "";
  }

  node(n) {
    const { stage } = app, op = stage.opOf(n), state = stage.state[n];
    const chips = [`<span class="chip">${escapeHtml(op.kind)}</span>`];
    if (state) chips.push(`<span class="chip ${state}">${state} by ${escapeHtml(stage.name)}</span>`);
    if (stage.doomed.has(n)) chips.push(`<span class="chip removed">removed by ${escapeHtml(page.data.stages[stage.index + 1].name)}</span>`);
    let html = `<h3><span class="mono">${escapeHtml(op.name)}</span></h3><p>${chips.join("")}</p><p class="soft">${escapeHtml(op.doc)}</p>`;
    const facts = stage.values(n).map((v) => [`<span class="mono">${escapeHtml(stage.label(v))}</span>`,
      `<span class="mono">${escapeHtml(stage.type(v))}</span> <span class="soft">${amount(stage.bytes(v), "B")}</span>`]);
    for (const field of fieldsOf(op)) facts.push([escapeHtml(field[0]), `<span class="mono">${escapeHtml(field[1])}</span>`]);
    facts.push(["module", scopeLinks(stage.scopeOf[n])]);
    html += factList(facts) + this.source(n);
    html += valueList("Operands", stage.args[n].map((v) => [v, stage.producer[v]]));
    const users = [...new Set(stage.values(n).flatMap((v) => stage.users[v]))];
    html += users.length ? `<h2>Used by (${users.length})</h2><ul class="values">${users.slice(0, 40).map((u) => `<li>${nodeLink(u)}<span class="type mono">${escapeHtml(clip(stage.type(stage.first[u]), 24))}</span></li>`).join("")}</ul>` : "";
    const outputs = stage.values(n).filter((v) => stage.outputOf.has(v));
    if (outputs.length) html += `<h2>Leaves the graph as</h2><p>${outputs.map((v) => escapeHtml(outputName(stage, v))).join(", ")}</p>`;
    html += this.history(n) + `<h2>Cost, by itself</h2>${factList([["bytes", amount(stage.bytesOf(n), "B")], ["operations", amount(stage.flops[n])]])}`;
    const steps = stage.stepsOf[n];
    if (steps.length) {
      html += `<h2>Runs in</h2>`;
      const why = stage.replaced.has(n) ? "What later passes put in its place (nodes of the same module and line) runs in" : `Cheap enough to be computed in each of ${steps.length} steps:`;
      if (steps.length > 1 || stage.replaced.has(n)) html += `<p class="soft">${why}</p><p>${steps.slice(0, 12).map((k) => stepLink(k)).join("<br>")}</p>`;
      html += this.stepBody(steps[0]);
    } else if (stage.isLast && page.data.execution) html += `<h2>Runs in</h2><p class="soft">${escapeHtml(this.noStep(n))}</p>`;
    return html;
  }

  noStep(n) {
    const alias = page.data.execution.aliases[app.stage.first[n]];
    if (alias !== undefined) return `Nothing runs: it is the memory of ${app.stage.label(alias)} under another type.`;
    if (app.stage.isConstant(n)) return "Nothing runs: the number is an argument of the kernels that use it.";
    return "No step of its own.";
  }

  source(n) {
    const place = app.stage.placeOf(n);
    if (!place) return "";
    const lines = Object.entries(place.file.lines).map(([k, text]) => [Number(k), text]).filter(([k]) => Math.abs(k - place.line) <= 6);
    const where = `${place.file.path}${place.line ? ":" + place.line : ""}${place.function ? " in " + place.function : ""}`;
    if (!lines.length) return `<h2>From</h2><p class="mono">${escapeHtml(where)}</p>`;
    const width = String(lines[lines.length - 1][0]).length;
    const text = lines.map(([k, line]) => {
      const row = `<span class="number">${String(k).padStart(width)}</span>  ${escapeHtml(line)}`;
      return `<span class="code-line${k === place.line ? " here" : ""}">${row}</span>`;
    }).join("");
    return `<h2>From</h2><p class="mono">${escapeHtml(where)}</p><pre>${text}</pre>`;
  }

  history(n) {
    const { stage } = app;
    const rows = [];
    if (stage.origin && stage.origin[n] >= 0) rows.push(`<button class="link" data-go="stage:${stage.index - 1}:${stage.origin[n]}">◂ in ${escapeHtml(page.data.stages[stage.index - 1].name)}</button>`);
    if (stage.successor.has(n)) rows.push(`<button class="link" data-go="stage:${stage.index + 1}:${stage.successor.get(n)}">in ${escapeHtml(page.data.stages[stage.index + 1].name)} ▸</button>`);
    return rows.length ? `<h2>The same node</h2><p>${rows.join(" &nbsp; ")}</p>` : "";
  }

  scope(scope) {
    const { stage } = app, nodes = scope.all();
    const counts = new Map();
    for (const n of nodes) if (!stage.isConstant(n)) counts.set(stage.opOf(n).name, (counts.get(stage.opOf(n).name) || 0) + 1);
    const steps = [...new Set(nodes.flatMap((n) => stage.stepsOf[n].slice(0, 1)))].sort((a, b) => a - b);
    const changed = ["added", "rewired"].map((s) => [s, nodes.filter((n) => stage.state[n] === s).length]).filter(([, x]) => x);
    const facts = [["nodes", scope.count], ["operations", amount(nodes.reduce((sum, n) => sum + stage.flops[n], 0))],
      ...changed.map(([s, x]) => [`<span class="${s}">${s} here</span>`, x])];
    if (scope.chain.length > 2) facts.unshift(["inside", scopeLinks(scope.parent)]);
    let html = `<h3>${escapeHtml(scope.title)}</h3><p class="soft">${{ phase: "part of the step", module: "module", line: "line of the program", part: "part of a long list", root: "" }[scope.kind]}</p>${factList(facts)}`;
    if (scope.kind === "line" && scope.nodes.length) html += this.source(scope.nodes[0]);
    html += `<h2>Ops</h2><p>${[...counts].sort((a, b) => b[1] - a[1]).map(([name, x]) => `<span class="chip mono">${escapeHtml(name)}${x > 1 ? " × " + x : ""}</span>`).join("")}</p>`;
    if (steps.length) {
      const time = steps.reduce((sum, k) => sum + stepTime(k), 0);
      html += `<h2>Steps (${steps.length}, ${duration(time)} in all)</h2><table><tbody>${steps.slice(0, 60).map((k) => `<tr><td>${stepLink(k)}</td><td class="right">${duration(stepTime(k))}</td></tr>`).join("")}</tbody></table>`;
    }
    return html;
  }

  step(k) {
    return `<h3>Step ${k}</h3>${this.stepBody(k)}${this.members(k)}`;
  }
  stepBody(k) {
    const step = page.data.execution.steps[k];
    const name = { kernel: "fused kernel", blas: "BLAS", host: "host", copy: "copy" }[step.kind];
    const facts = [["step", `${stepLink(k)} <span class="chip">${name}</span>`]];
    if (step.shape) facts.push(["over", `<span class="mono">${escapeHtml(step.shape)}</span>`]);
    if (step.measured != null) facts.push(["measured", `<b>${duration(step.measured)}</b>`]);
    facts.push(["estimate", `${duration(step.estimate)} <span class="soft">one thread</span>`], ["moves", amount(step.bytes, "B")], ["operations", amount(step.flops)]);
    const time = step.measured ?? 0;
    if (time > 0) facts.push(["reaches", `${amount(step.bytes / time * 1e6, "B/s")}, ${amount(step.flops / time * 1e6, "op/s")}`]);
    let html = factList(facts);
    const rows = step.accesses.map(([v, bytes, place, role]) => `<li><span class="soft mono role">${role.padEnd(5)}</span>${v >= 0 ? valueLink(v) : "scratch"}<span class="type">${amount(bytes, "B")}, ${escapeHtml(place)}</span></li>`);
    if (rows.length) html += `<h2>Memory</h2><ul class="values">${rows.join("")}</ul>`;
    return html + this.code(step);
  }
  members(k) {
    const nodes = page.data.execution.steps[k].nodes;
    if (!nodes.length || !app.stage.isLast) return "";
    return `<h2>Nodes (${nodes.length})</h2><ul class="values">${nodes.map((n) => `<li>${nodeLink(n)}<span class="type mono">${escapeHtml(clip(app.stage.type(app.stage.first[n]), 24))}</span></li>`).join("")}</ul>`;
  }

  code(step) {
    if (!step.launches.length) return "";
    const at = Math.min(this.launch, step.launches.length - 1), launch = step.launches[at];
    const several = step.launches.length > 1
      ? `<div class="tabs">${step.launches.map((x, i) => `<button data-go="launch:${i}" aria-pressed="${i === at}">${escapeHtml(x.label)}</button>`).join("")}</div>` : "";
    const numbers = [`kernel ${launch.kernel}`, `${launch.extent} iterations`, launch.geometry];
    if (launch.slots.length) numbers.push(`slots ${JSON.stringify(launch.slots)}`);
    if (launch.params.length) numbers.push(`params ${JSON.stringify(launch.params)}`);
    return `<h2>Code</h2>${several}<p class="soft">${escapeHtml(clip(numbers.join(", "), 400))}</p><div class="code-box" data-kernel="${launch.kernel}"></div>`;
  }
  /** The code is unpacked when it is first asked for. */
  async fillCode() {
    const boxes = [...this.element.querySelectorAll(".code-box")];
    if (!boxes.length) return;
    page.code ||= unpack("code");
    const kernels = await page.code;
    for (const box of boxes) {
      const texts = kernels[box.dataset.kernel] || {};
      const level = texts[this.level] !== undefined ? this.level : Object.keys(texts)[0];
      if (!level) continue;
      const tabs = Object.keys(texts).map((t) => `<button data-go="level:${escapeHtml(t)}" aria-pressed="${t === level}">${escapeHtml(t)}</button>`).join("");
      box.innerHTML = `<div class="tabs">${tabs}<button data-go="copy:" title="Copy">copy</button></div><pre class="code">${escapeHtml(texts[level])}</pre>`;
    }
  }

  value(v) {
    const { stage } = app;
    const users = stage.users[v];
    let html = `<h3 class="mono">${escapeHtml(stage.label(v))}</h3><p><span class="chip">input ${v}</span></p>
      ${factList([["type", `<span class="mono">${escapeHtml(stage.type(v))}</span>`], ["bytes", amount(stage.bytes(v), "B")]])}`;
    const written = Object.entries(page.data.execution?.writes || {}).filter(([, i]) => i === v).map(([k]) => Number(k));
    if (written.length) html += `<h2>Written by</h2><ul class="values">${written.map((k) => stage.outputs[k]).filter((o) => stage.producer[o] >= 0).map((o) => `<li>${nodeLink(stage.producer[o])}</li>`).join("")}</ul>`;
    return html + `<h2>Used by (${users.length})</h2><ul class="values">${users.map((u) => `<li>${nodeLink(u)}<span class="type">${escapeHtml(stage.scopeOf[u].path)}</span></li>`).join("")}</ul>`;
  }
}

const stepTime = (k) => page.data.execution.steps[k].measured ?? page.data.execution.steps[k].estimate;
const stepLink = (k) => `<button class="link" data-go="step:${k}">${k}: ${escapeHtml(clip(page.data.execution.steps[k].title, 40))}</button>`;
function nodeLink(n) {
  const { stage } = app, op = stage.opOf(n);
  return `<button class="link mono what" data-go="node:${n}" title="${escapeHtml(stage.scopeOf[n].path)}">${escapeHtml(stage.label(stage.first[n]))} = ${escapeHtml(op.name)}</button>`;
}
/** A link to what makes a value of the last stage. */
function valueLink(v) {
  if (!app.stage.isLast) return `<span class="mono what">%${v}</span>`;
  const p = app.stage.producer[v];
  return `<button class="link mono what" data-go="${p < 0 ? "value:" + v : "node:" + p}">${escapeHtml(app.stage.label(v))}</button>`;
}
function valueList(title, values) {
  const { stage } = app;
  if (!values.length) return "";
  const rows = values.map(([v, p]) => {
    const constant = stage.constantOf(v);
    const what = constant !== undefined ? `<span class="mono">${escapeHtml(constant)}</span>`
      : p < 0 ? `<button class="link mono what" data-go="value:${v}">${escapeHtml(stage.label(v))}</button>` : nodeLink(p);
    return `<li>${what}<span class="type mono">${escapeHtml(clip(stage.type(v), 26))}</span></li>`;
  });
  return `<h2>${title}</h2><ul class="values">${rows.join("")}</ul>`;
}
function scopeLinks(scope) {
  return scope.chain.slice(1).map((s) => `<button class="link" data-go="scope:${escapeHtml(s.id)}">${escapeHtml(s.name)}</button>`).join(" / ") || "the graph itself";
}
function factList(facts) { return `<dl class="facts">${facts.map(([name, text]) => `<dt>${name}</dt><dd>${text}</dd>`).join("")}</dl>`; }

/** An op's fields, split at the commas that are not in brackets. */
function fieldsOf(op) {
  const parts = [];
  let depth = 0, part = "";
  for (const c of op.fields || "") {
    if ("([{".includes(c)) depth++;
    if (")]}".includes(c)) depth--;
    if (c === "," && !depth) { parts.push(part); part = ""; } else part += c;
  }
  if (part) parts.push(part);
  return parts.map((p) => { const at = p.indexOf("="); return at < 0 ? ["", p.trim()] : [p.slice(0, at).trim(), p.slice(at + 1).trim()]; });
}

/** What a pass did, in figures. */
function changeText(stage) {
  const added = stage.origin.filter((o) => o < 0).length;
  const parts = [[added, "added"], [stage.removed.length, "removed"], [stage.rewired.length, "rewired"]].filter(([x]) => x);
  return parts.map(([x, what]) => `<span class="${what}">${{ added: "+", removed: "−", rewired: "~" }[what]}${x}</span>`).join(" ") || "the same nodes";
}
