// The graph on a canvas: drawing what is in sight, moving about, and what is under the pointer.

const MARGIN = 22, TOP = 48, BOTTOM = 46; // the tools and the legend have room

class GraphCanvas {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.view = { x: 0, y: 0, k: 1 };
    this.root = null;
    this.moved = false; // by the user: then a change of size keeps the place
    new ResizeObserver(() => {
      if (!this._resize() || !this.root) return;
      if (!this.moved) this.fit();
      this.paint(); // a new size has emptied the canvas
    }).observe(canvas);
    this._resize();
    this._listen();
  }

  _resize() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const ratio = window.devicePixelRatio || 1;
    if (this.w === w && this.h === h && this.ratio === ratio) return false;
    this.w = w; this.h = h; this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.round(w * ratio));
    this.canvas.height = Math.max(1, Math.round(h * ratio));
    return true;
  }

  /** Show all of `box`, at most at its natural size. */
  fit(box = this.root, most = 1) {
    if (!box || !this.w) return;
    const k = Math.min(most, this.scaleFor(box));
    const room = this.h - TOP - BOTTOM;
    this.view = { k, x: this.w / 2 - k * (box.x + box.w / 2), y: TOP + Math.max(0, room - k * box.h) * 0.3 - k * box.y };
  }
  /** The largest scale at which a box is in sight as a whole. */
  scaleFor(box) {
    return Math.min((this.w - 2 * MARGIN) / Math.max(1, box.w), (this.h - TOP - BOTTOM) / Math.max(1, box.h));
  }

  /** Bring a box into sight, large enough to be read. */
  reveal(box) {
    const k = Math.max(this.view.k, 0.75);
    const [x, y, w, h] = [box.x * k + this.view.x, box.y * k + this.view.y, box.w * k, box.h * k];
    const inSight = k === this.view.k && x >= 0 && y >= 0 && x + w <= this.w && y + h <= this.h;
    if (inSight) return;
    this.moved = true;
    this.view = { k, x: this.w / 2 - k * (box.x + box.w / 2), y: this.h / 2 - k * (box.y + Math.min(box.h, this.h / k) / 2) };
  }

  zoom(factor, px = this.w / 2, py = this.h / 2) {
    const k = Math.min(3, Math.max(0.02, this.view.k * factor));
    const f = k / this.view.k;
    this.view = { k, x: px - f * (px - this.view.x), y: py - f * (py - this.view.y) };
    this.moved = true;
    this.draw();
  }

  draw() {
    if (this.pending || !this.root) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.paint(); });
  }

  paint() {
    const c = this.context, { k, x, y } = this.view;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.fillStyle = cssColors.canvas;
    c.fillRect(0, 0, this.w, this.h);
    c.setTransform(this.ratio * k, 0, 0, this.ratio * k, this.ratio * x, this.ratio * y);
    this.sight = { left: -x / k, top: -y / k, right: (this.w - x) / k, bottom: (this.h - y) / k };
    this.drawn = 0;
    this._box(this.root);
    this._links();
  }

  _inSight(b) {
    const s = this.sight;
    return b.x < s.right && b.x + b.w > s.left && b.y < s.bottom && b.y + b.h > s.top;
  }

  _box(box) {
    if (box !== this.root && !this._inSight(box)) return;
    this.drawn++;
    if (box.node >= 0) return this._leaf(box);
    if (!box.open) return this._folded(box);
    if (box !== this.root) this._frame(box);
    if (Math.min(box.w, box.h) * this.view.k < 14 && box.scope.parent) return this._stripes(box); // too small to see inside
    for (const e of box.edges) this._edge(e, box);
    for (const child of box.children) this._box(child);
  }

  /** Colours alone. */
  _stripes(box) {
    const c = this.context;
    let y = box.y;
    for (const [color, share] of app.shares(box.scope)) {
      c.fillStyle = color;
      c.fillRect(box.x + 2, y, box.w - 4, box.h * share);
      y += box.h * share;
    }
  }

  _frame(box) {
    const c = this.context, depth = box.scope.depth;
    c.fillStyle = depth % 2 ? cssColors.scope : cssColors["scope-2"];
    c.strokeStyle = app.isSelected(box) ? cssColors.accent : cssColors.line;
    c.lineWidth = app.isSelected(box) ? 2.5 : 1;
    rounded(c, box.x, box.y, box.w, box.h, 8);
    c.fill(); c.stroke();
    if (this.view.k < 0.25 && box.h * this.view.k < 60) return;
    const size = Math.min(Math.max(12, 11 / this.view.k), 24, box.w / 8 + 4);
    c.font = TITLE_FONT.replace("12px", `${size}px`);
    c.fillStyle = cssColors.soft;
    c.textBaseline = "middle";
    c.fillText("▾ " + fitText(c, box.title, box.w - 36), box.x + 8, box.y + 14);
    c.font = SMALL_FONT;
    const sub = this.subtitle(box.scope);
    if (box.w > c.measureText(sub).width + textWidth(box.title, TITLE_FONT) * (size / 12) + 50) {
      c.textAlign = "right";
      c.fillText(sub, box.x + box.w - 10, box.y + 14);
      c.textAlign = "left";
    }
  }

  _folded(box) {
    const c = this.context;
    const dim = app.dims(box);
    c.globalAlpha = dim ? 0.35 : 1;
    c.fillStyle = cssColors.back;
    rounded(c, box.x, box.y, box.w, box.h, 8);
    c.fill();
    c.strokeStyle = app.isSelected(box) ? cssColors.accent : cssColors.edge;
    c.lineWidth = app.isSelected(box) ? 2.5 : 1.2;
    c.stroke();
    let x = box.x + 1;
    const width = box.w - 2;
    c.save();
    rounded(c, box.x + 0.6, box.y + 0.6, box.w - 1.2, box.h - 1.2, 7.5);
    c.clip();
    for (const [color, share] of app.shares(box.scope)) {
      c.fillStyle = color;
      c.fillRect(x, box.y + box.h - 8, width * share + 0.5, 8);
      x += width * share;
    }
    c.restore();
    const size = Math.min(Math.max(12, 10 / this.view.k), 19, 12 * (box.w - 16) / (textWidth(box.title, TITLE_FONT) + 14));
    if (this.view.k * size >= 3.5) { // from afar the name alone, as large as it fits
      const alone = this.view.k < 0.62;
      c.textBaseline = "middle";
      c.font = TITLE_FONT.replace("12px", `${size}px`);
      c.fillStyle = cssColors.ink;
      c.fillText("▸ " + box.title, box.x + 8, box.y + (alone ? (FOLDED - 8) / 2 : 13));
      c.font = SMALL_FONT;
      c.fillStyle = cssColors.soft;
      if (!alone) c.fillText(fitText(c, this.subtitle(box.scope), box.w - 18), box.x + 11, box.y + 27);
    }
    c.globalAlpha = 1;
  }

  _leaf(box) {
    const c = this.context, stage = app.stage;
    c.globalAlpha = app.dims(box) ? 0.3 : 1;
    c.fillStyle = app.coloring.of(box.node);
    rounded(c, box.x, box.y, box.w, box.h, 5);
    c.fill();
    const doomed = stage.doomed.has(box.node) && app.color === "change";
    c.strokeStyle = app.isSelected(box) ? cssColors.accent : doomed ? cssColors.removed : cssColors.edge;
    c.lineWidth = app.isSelected(box) ? 3 : doomed ? 2 : 0.7;
    if (doomed) c.setLineDash([5, 3]);
    c.stroke();
    c.setLineDash([]);
    if (this.view.k * 12 >= 4.5) {
      c.textBaseline = "middle";
      c.font = TITLE_FONT;
      c.fillStyle = cssColors.ink;
      c.fillText(box.title, box.x + 10, box.y + 12);
      c.font = SMALL_FONT;
      c.fillStyle = cssColors.soft;
      box.lines.forEach((line, i) => c.fillText(line, box.x + 10, box.y + 26 + 13 * i));
    }
    c.globalAlpha = 1;
  }

  subtitle(scope) { return app.scopeSubtitle(scope); }

  _edge(e, box) {
    const points = e.points;
    const ys = points.map((p) => p[1]), xs = points.map((p) => p[0]), s = this.sight;
    if (Math.min(...xs) > s.right || Math.max(...xs) < s.left || Math.min(...ys) > s.bottom || Math.max(...ys) < s.top) return;
    const c = this.context;
    const long = Math.abs(points[points.length - 1][1] - points[0][1]) > 900;
    c.globalAlpha = app.dimsEdge(e) ? 0.12 : long ? 0.4 : 0.85;
    c.strokeStyle = cssColors.edge;
    c.lineWidth = Math.min(5, 0.8 + 0.7 * Math.log2(1 + e.values.size));
    const sideways = !box.scope.parent && e.from.scope?.kind === "phase" && e.to.scope?.kind === "phase";
    curve(c, points, sideways);
    c.stroke();
    arrow(c, points, cssColors.edge, sideways);
    if (sideways && this.view.k > 0.3) {
      const [a, b] = [points[0], points[points.length - 1]];
      c.font = SMALL_FONT; c.fillStyle = cssColors.soft; c.textAlign = "center"; c.textBaseline = "bottom";
      c.fillText(String(e.values.size), (a[0] + b[0]) / 2, (points.length > 2 ? points[1][1] : a[1]) - 3);
      c.textAlign = "left";
    }
    c.globalAlpha = 1;
  }

  /** Lines from and to what is selected, across scopes. */
  _links() {
    for (const { from, to, color } of app.links()) {
      const c = this.context;
      c.strokeStyle = c.fillStyle = cssColors[color];
      c.lineWidth = Math.max(1.6, 1.2 / this.view.k);
      const down = to.y >= from.y + from.h - 4;
      const points = down
        ? [[from.x + from.w / 2, from.y + from.h], [to.x + to.w / 2, to.y]]
        : [[from.x + from.w / 2, from.y + from.h / 2], [to.x + to.w / 2, to.y + to.h / 2]];
      curve(c, points, !down);
      c.stroke();
      arrow(c, points, cssColors[color], !down);
    }
  }

  /** The innermost box at a place of the window. */
  at(px, py) {
    const x = (px - this.view.x) / this.view.k, y = (py - this.view.y) / this.view.k;
    const inside = (b) => x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h;
    let found = this.root && inside(this.root) ? this.root : null;
    for (let box = found; box; ) {
      box = box.children.find(inside);
      if (box) found = box;
    }
    return found === this.root ? null : found;
  }
  /** Whether a place is on a box's title. */
  onTitle(box, py) {
    return !box.open || (py - this.view.y) / this.view.k - box.y < HEAD;
  }

  _listen() {
    const canvas = this.canvas;
    let start = null;
    canvas.addEventListener("pointerdown", (e) => {
      start = { x: e.offsetX, y: e.offsetY, vx: this.view.x, vy: this.view.y, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (start) {
        const dx = e.offsetX - start.x, dy = e.offsetY - start.y;
        if (Math.hypot(dx, dy) > 4) start.moved = this.moved = true;
        if (start.moved) {
          canvas.classList.add("drags");
          this.view = { ...this.view, x: start.vx + dx, y: start.vy + dy };
          this.draw();
        }
        return;
      }
      const box = this.at(e.offsetX, e.offsetY);
      const live = box && (box.node >= 0 || this.onTitle(box, e.offsetY)) ? box : null;
      canvas.classList.toggle("over", !!live);
      app.hint(live, e.offsetX, e.offsetY);
    });
    canvas.addEventListener("pointerup", (e) => {
      canvas.classList.remove("drags");
      if (start && !start.moved) {
        const box = this.at(e.offsetX, e.offsetY);
        if (!box) app.select(null);
        else app.selectBox(box);
      }
      start = null;
    });
    canvas.addEventListener("pointercancel", () => { start = null; canvas.classList.remove("drags"); });
    canvas.addEventListener("pointerleave", () => app.hint(null));
    canvas.addEventListener("dblclick", (e) => {
      const box = this.at(e.offsetX, e.offsetY);
      if (box?.scope) app.toggle(box.scope);
    });
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.shiftKey) { this.view.x -= e.deltaY + e.deltaX; this.moved = true; this.draw(); }
      else this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0016)), e.offsetX, e.offsetY);
    }, { passive: false });
  }
}

function rounded(c, x, y, w, h, r) {
  c.beginPath();
  c.roundRect(x, y, w, h, r);
}
function fitText(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let n = text.length;
  while (n > 1 && c.measureText(text.slice(0, n) + "…").width > width) n--;
  return text.slice(0, n) + "…";
}
function curve(c, points, sideways) {
  c.beginPath();
  c.moveTo(...points[0]);
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i];
    if (sideways) c.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
    else c.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
  }
}
function arrow(c, points, color, sideways) {
  const [x, y] = points[points.length - 1], [px, py] = points[points.length - 2];
  c.fillStyle = color;
  c.beginPath();
  c.moveTo(x, y);
  if (sideways) { const d = x > px ? -7 : 7; c.lineTo(x + d, y - 3.5); c.lineTo(x + d, y + 3.5); }
  else { const d = y >= py ? -7 : 7; c.lineTo(x - 3.5, y + d); c.lineTo(x + 3.5, y + d); }
  c.fill();
}
