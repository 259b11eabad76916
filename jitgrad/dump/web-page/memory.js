// The arena over time: a rectangle for each value, from its first to its last step, at its offset.

class MemoryView {
  constructor(canvas, text, hint) {
    Object.assign(this, { canvas, text, hint, context: canvas.getContext("2d"), at: -1 });
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("pointermove", (e) => { this.at = this.find(e.offsetX, e.offsetY); this.showHint(e.offsetX, e.offsetY); this.draw(); });
    canvas.addEventListener("pointerleave", () => { this.at = -1; hint.hidden = true; this.draw(); });
    canvas.addEventListener("click", () => this.choose());
    canvas.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (step) { this.at = (this.at + step + this.lives.length) % this.lives.length; this.choose(); e.preventDefault(); e.stopPropagation(); }
    });
  }

  get lives() { return page.data.execution?.arena.lives || []; }

  choose() {
    const life = this.lives[this.at];
    if (!life) return;
    const p = life[0] < 0 ? -1 : this.stage().producer[life[0]];
    if (p >= 0) { app.setStage(page.data.stages.length - 1); app.select({ kind: "node", n: p }); } else app.select({ kind: "step", k: life[3] });
    this.draw();
  }
  stage() { return page.stage(page.data.stages.length - 1); }

  /** Bytes that are alive at each step. */
  alive() {
    if (this._alive) return this._alive;
    const steps = page.data.execution.steps.length;
    const sums = new Float64Array(steps + 1);
    const ends = new Map();
    for (const [, offset, bytes, first, last, over] of this.lives) {
      const own = over >= 0 ? 0 : bytes; // taken over: the bytes are counted already until the old value's end
      sums[first] += own;
      if (over >= 0) { sums[first + 1] += bytes; }
      sums[last + 1] -= bytes;
      ends.set(offset, last);
    }
    for (let k = 1; k <= steps; k++) sums[k] += sums[k - 1];
    return (this._alive = sums.slice(0, steps));
  }

  box() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return { left: 74, right: w - 16, top: 92, bottom: h - 34, w, h };
  }

  draw() {
    const run = page.data.execution, c = this.context, b = this.box();
    if (!run || !b.w) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = b.w * ratio; this.canvas.height = b.h * ratio;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = cssColors.canvas;
    c.fillRect(0, 0, b.w, b.h);
    const steps = run.steps.length, size = Math.max(1, run.arena.bytes);
    this.x = (k) => b.left + (b.right - b.left) * k / Math.max(1, steps);
    this.y = (o) => b.bottom - (b.bottom - b.top) * o / size;
    this.axes(c, b, steps, size);
    const chosenStep = app.selection?.kind === "step" ? app.selection.k : -1;
    if (chosenStep >= 0) {
      c.fillStyle = cssColors["accent-back"];
      c.fillRect(this.x(chosenStep), b.top, Math.max(2, this.x(1) - this.x(0)), b.bottom - b.top);
    }
    this.lives.forEach((life, i) => this.life(c, life, i));
    this.curve(c, b, steps, size);
  }

  life(c, [value, offset, bytes, first, last, over], i) {
    const x = this.x(first), w = Math.max(2, this.x(last + 1) - x - 0.5), y = this.y(offset + bytes), h = Math.max(1, this.y(offset) - y - 0.5);
    const p = value < 0 ? -1 : this.stage().producer[value];
    const chosen = i === this.at || (app.selection?.kind === "node" && p === app.selection.n && app.stage.isLast);
    c.fillStyle = value < 0 ? cssColors.neutral : stepColor(first);
    c.fillRect(x, y, w, h);
    c.strokeStyle = chosen ? cssColors.accent : cssColors.edge;
    c.lineWidth = chosen ? 2.5 : h < 3 ? 0.2 : 0.6;
    c.strokeRect(x, y, w, h);
    if (over >= 0 && h > 3) { c.fillStyle = cssColors.accent; c.fillRect(x, y, 2.5, h); }
    if (h < 13 || w < 40) return;
    c.font = SMALL_FONT;
    c.fillStyle = cssColors.ink;
    c.textBaseline = "middle";
    const name = value < 0 ? "scratch" : p >= 0 ? this.stage().opOf(p).name : this.stage().label(value);
    c.fillText(fitText(c, `${name} ${value < 0 ? "" : this.stage().type(value)}`, w - 8), x + 5, y + Math.min(h / 2, 12));
  }

  axes(c, b, steps, size) {
    c.font = SMALL_FONT; c.fillStyle = cssColors.soft; c.strokeStyle = cssColors.line; c.lineWidth = 1;
    c.textAlign = "right"; c.textBaseline = "middle";
    for (let k = 0; k <= 4; k++) {
      const y = this.y(size * k / 4);
      c.beginPath(); c.moveTo(b.left, y); c.lineTo(b.right, y); c.stroke();
      c.fillText(amount(size * k / 4, "B"), b.left - 6, y);
    }
    c.textAlign = "center"; c.textBaseline = "top";
    const each = Math.max(1, Math.ceil(steps / ((b.right - b.left) / 46)));
    for (let k = 0; k < steps; k += each) c.fillText(String(k), (this.x(k) + this.x(k + 1)) / 2, b.bottom + 5);
    c.fillText("step", (b.left + b.right) / 2, b.bottom + 18);
    c.textAlign = "left";
  }

  /** The bytes alive, as a line above. */
  curve(c, b, steps, size) {
    const alive = this.alive(), top = 24, bottom = b.top - 14;
    const most = Math.max(...alive, 1);
    const y = (x) => bottom - (bottom - top) * x / Math.max(most, size);
    c.beginPath();
    c.moveTo(this.x(0), bottom);
    alive.forEach((x, k) => { c.lineTo(this.x(k), y(x)); c.lineTo(this.x(k + 1), y(x)); });
    c.lineTo(this.x(steps), bottom);
    c.fillStyle = cssColors["accent-back"]; c.strokeStyle = cssColors.accent; c.lineWidth = 1.3;
    c.fill(); c.stroke();
    c.fillStyle = cssColors.soft; c.font = SMALL_FONT; c.textBaseline = "middle"; c.textAlign = "left";
    c.fillText(`alive: ${amount(most, "B")} at most, in an arena of ${amount(size, "B")}`, b.left, 12);
  }

  find(px, py) {
    let best = -1;
    this.lives.forEach(([, offset, bytes, first, last], i) => {
      const x0 = this.x(first), x1 = Math.max(x0 + 3, this.x(last + 1)), y0 = this.y(offset + bytes), y1 = Math.max(y0 + 3, this.y(offset));
      if (px >= x0 && px <= x1 && py >= y0 - 1 && py <= y1 + 1 && (best < 0 || bytes <= this.lives[best][2])) best = i;
    });
    return best;
  }

  showHint(px, py) {
    const life = this.lives[this.at];
    this.hint.hidden = !life;
    if (!life) return;
    const [value, offset, bytes, first, last, over] = life;
    const stage = this.stage(), p = value < 0 ? -1 : stage.producer[value];
    const name = value < 0 ? "scratch of a kernel" : `${stage.label(value)} = ${p >= 0 ? stage.opOf(p).name : "input"} : ${stage.type(value)}`;
    this.hint.innerHTML = `<b class="mono">${escapeHtml(name)}</b><br>${amount(bytes, "B")} at ${offset}, steps ${first} to ${last}`
      + (over >= 0 ? `<br>in the memory of ${escapeHtml(stage.label(over))}` : "") + (p >= 0 ? `<br><span class="soft">${escapeHtml(stage.scopeOf[p].path)}</span>` : "");
    placeHint(this.hint, px, py, this.canvas);
  }

  show() {
    const run = page.data.execution;
    if (!run) { this.text.textContent = "Nothing was compiled."; return; }
    const stage = this.stage();
    const sum = (values) => [...new Set(values)].reduce((total, v) => total + stage.bytes(v), 0);
    const separate = this.lives.reduce((total, l) => total + l[2], 0);
    const fresh = stage.outputs.filter((_, k) => run.writes[k] === undefined);
    this.text.innerHTML = `Arena <b>${amount(run.arena.bytes, "B")}</b> for ${this.lives.length} values that would take ${amount(separate, "B")} apart from one another.
      Beside it: inputs ${amount(sum(stage.inputs.map((_, v) => v)), "B")}, fresh outputs ${amount(sum(fresh), "B")}, ${Object.keys(run.writes).length} outputs written into inputs.
      A blue edge marks a value computed in another's memory.`;
    this.draw();
  }
}

function placeHint(hint, px, py, around) {
  const { clientWidth: w, clientHeight: h } = around;
  hint.style.left = `${Math.max(4, Math.min(px + 14, w - hint.offsetWidth - 8))}px`;
  hint.style.top = `${py + 18 + hint.offsetHeight > h ? Math.max(4, py - hint.offsetHeight - 12) : py + 18}px`;
}
