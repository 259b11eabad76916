// A layered layout: things with sizes and edges between them, from top to bottom. Near-linear in their number.

const GAP_X = 14, GAP_Y = 24, GAP_PARTS = 24;
const LONGEST_ROUTE = 10; // layers that an edge is led around boxes for; longer ones go straight
const WIDEST = 1200; // of one row, but where there is much
const SWEEPS = 6;

/**
 * Places `items` ({w, h, order}) by setting x and y, and gives {w, h, routes}: for each edge ({a, b}, indices) its
 * points from the bottom of `a` to the top of `b`. Edges against the order are led backwards.
 */
function layered(items, edges) {
  const parts = components(items, edges);
  const boxes = parts.map((part) => layoutPart(part));
  const area = boxes.reduce((sum, b) => sum + (b.w + GAP_PARTS) * (b.h + GAP_PARTS), 0);
  const limit = Math.max(...boxes.map((b) => b.w), Math.sqrt(area * 1.5), 1);
  let x = 0, y = 0, rowHeight = 0, width = 0;
  const routes = new Array(edges.length);
  for (const box of boxes) {
    if (x > 0 && x + box.w > limit) { x = 0; y += rowHeight + GAP_PARTS; rowHeight = 0; }
    for (const item of box.items) { item.x += x; item.y += y; }
    for (const [k, points] of box.routes) routes[k] = points.map(([px, py]) => [px + x, py + y]);
    x += box.w + GAP_PARTS;
    rowHeight = Math.max(rowHeight, box.h);
    width = Math.max(width, x - GAP_PARTS);
  }
  return { w: width, h: y + rowHeight, routes };
}

/** Items that are connected, with their edges; in the order of their first items. */
function components(items, edges) {
  const parent = items.map((_, i) => i);
  const find = (i) => { while (parent[i] !== i) i = parent[i] = parent[parent[i]]; return i; };
  for (const { a, b } of edges) parent[find(a)] = find(b);
  const parts = new Map();
  items.map((_, i) => i).sort((i, j) => items[i].order - items[j].order).forEach((i) => {
    const root = find(i);
    if (!parts.has(root)) parts.set(root, { items: [], edges: [] });
    items[i].place = parts.get(root).items.length;
    parts.get(root).items.push(items[i]);
  });
  edges.forEach(({ a, b }, k) => {
    const turned = items[a].order > items[b].order;
    const [from, to] = turned ? [b, a] : [a, b];
    parts.get(find(a)).edges.push({ from: items[from].place, to: items[to].place, turned, k });
  });
  return [...parts.values()];
}

function layoutPart({ items, edges }) {
  const n = items.length;
  const below = items.map(() => []), above = items.map(() => []);
  for (const e of edges) { below[e.from].push(e); above[e.to].push(e); }
  const layer = assignLayers(n, below, above);
  const { cells, chains } = makeCells(items, edges, layer);
  const rows = [];
  for (const cell of cells) (rows[cell.layer] ||= []).push(cell);
  order(rows);
  const area = cells.reduce((sum, c) => sum + (c.w + GAP_X) * (c.h + GAP_Y), 0);
  const lines = wrapped(rows, Math.max(WIDEST, 1.5 * Math.sqrt(area)));
  placeRows(lines);
  const [left, right] = cells.reduce(([l, r], c) => [Math.min(l, c.cx - c.w / 2), Math.max(r, c.cx + c.w / 2)], [Infinity, -Infinity]);
  let y = 0;
  for (const line of lines) {
    const h = Math.max(...line.map((c) => c.h));
    for (const c of line) { c.y = y + (h - c.h) / 2; c.cx -= left; }
    y += h + GAP_Y;
  }
  items.forEach((item, i) => { item.x = cells[i].cx - item.w / 2; item.y = cells[i].y; });
  return { items, w: right - left, h: y - GAP_Y, routes: edges.map((e) => [e.k, route(e, cells, chains.get(e))]) };
}

/** The longest way from a source; sources stand just above what uses them. */
function assignLayers(n, below, above) {
  const layer = new Int32Array(n);
  for (let i = 0; i < n; i++) for (const e of below[i]) layer[e.to] = Math.max(layer[e.to], layer[i] + 1);
  for (let i = n - 1; i >= 0; i--) {
    if (above[i].length || !below[i].length) continue;
    layer[i] = Math.min(...below[i].map((e) => layer[e.to])) - 1;
  }
  const least = Math.min(...layer);
  return layer.map((l) => l - least);
}

/** A cell for each item, and narrow ones along edges that pass layers. */
function makeCells(items, edges, layer) {
  const cells = items.map((item, i) => ({ w: item.w, h: item.h, layer: layer[i], up: [], down: [], isItem: true }));
  const chains = new Map();
  for (const e of edges) {
    const chain = [];
    const span = layer[e.to] - layer[e.from];
    let last = cells[e.from];
    if (span <= LONGEST_ROUTE) {
      for (let l = layer[e.from] + 1; l < layer[e.to]; l++) {
        const cell = { w: 4, h: 1, layer: l, up: [], down: [], isItem: false };
        cells.push(cell);
        chain.push(cell);
        link(last, cell, last.isItem ? 2 : 6);
        last = cell;
      }
      link(last, cells[e.to], last.isItem ? 1 : 2);
    }
    chains.set(e, chain);
  }
  return { cells, chains };
}
function link(upper, lower, weight) {
  upper.down.push([lower, weight]);
  lower.up.push([upper, weight]);
}

/** Fewer crossings: each row by the mean place of its neighbours in the row before, up and down. */
function order(rows) {
  for (const row of rows) row.forEach((c, i) => { c.at = i; });
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (let k = down ? 1 : rows.length - 2; down ? k < rows.length : k >= 0; k += down ? 1 : -1) {
      for (const c of rows[k]) {
        const near = down ? c.up : c.down;
        c.key = near.length ? near.reduce((sum, [o]) => sum + o.at / Math.max(1, rows[o.layer].length), 0) / near.length : c.at / rows[k].length;
      }
      rows[k].sort((a, b) => a.key - b.key || a.at - b.at);
      rows[k].forEach((c, i) => { c.at = i; });
    }
  }
}

/** Rows that are too wide become several. */
function wrapped(rows, widest) {
  const lines = [];
  for (const row of rows) {
    let line = [], width = 0;
    for (const c of row) {
      if (line.length && width + c.w > widest) { lines.push(line); line = []; width = 0; }
      line.push(c);
      width += c.w + GAP_X;
    }
    lines.push(line);
  }
  return lines;
}

/** Horizontal places near the neighbours', without overlaps: a least-squares fit that keeps each row's order. */
function placeRows(lines) {
  for (const line of lines) {
    let x = 0;
    for (const c of line) { c.cx = x + c.w / 2; x += c.w + GAP_X; }
    for (const c of line) c.cx -= x / 2;
  }
  const wishes = [(c) => c.up, (c) => c.down, (c) => c.up, (c) => c.down, (c) => [...c.up, ...c.down], (c) => [...c.up, ...c.down]];
  wishes.forEach((near, sweep) => {
    const sequence = sweep % 2 ? [...lines].reverse() : lines;
    for (const line of sequence) {
      fit(line, line.map((c) => {
        const found = near(c);
        if (!found.length) return c.cx;
        let sum = 0, weight = 0;
        for (const [o, w] of found) { sum += w * o.cx; weight += w; }
        return sum / weight;
      }));
    }
  });
}

/** Isotonic regression by pooling: centres as close to `wanted` as the order and the gaps allow. */
function fit(line, wanted) {
  const shift = [0];
  for (let i = 1; i < line.length; i++) shift[i] = shift[i - 1] + (line[i - 1].w + line[i].w) / 2 + GAP_X;
  const pools = [];
  for (let i = 0; i < line.length; i++) {
    let pool = { sum: wanted[i] - shift[i], n: 1 };
    while (pools.length && pools[pools.length - 1].sum / pools[pools.length - 1].n > pool.sum / pool.n) {
      const last = pools.pop();
      pool = { sum: last.sum + pool.sum, n: last.n + pool.n };
    }
    pools.push(pool);
  }
  let i = 0;
  for (const pool of pools) for (let k = 0; k < pool.n; k++, i++) line[i].cx = pool.sum / pool.n + shift[i];
}

function route(e, cells, chain) {
  const a = cells[e.from], b = cells[e.to];
  const spread = (c, o) => Math.max(-c.w / 2 + 10, Math.min(c.w / 2 - 10, (o.cx - c.cx) * 0.25));
  const points = [
    [a.cx + spread(a, chain[0] || b), a.y + a.h],
    ...chain.map((c) => [c.cx, c.y]),
    [b.cx + spread(b, chain[chain.length - 1] || a), b.y],
  ];
  return e.turned ? points.reverse() : points;
}
