// The outline: parts, modules and lines as a tree that folds together with the graph, and the graph's inputs.

class Outline {
  constructor(element) {
    this.element = element;
    element.addEventListener("click", (e) => {
      const row = e.target.closest(".row");
      if (!row) return;
      if (row.dataset.value !== undefined) return app.select({ kind: "value", v: Number(row.dataset.value) });
      const scope = app.stage.scopes.get(row.dataset.scope);
      if (e.target.closest(".fold")) app.toggle(scope);
      else app.select({ kind: "scope", id: scope.id }, true);
    });
  }

  show() {
    const { stage } = app;
    const costs = app.coloring.costs;
    const total = costs.values.reduce((a, b) => a + b, 0) || 1;
    const rows = [];
    const walk = (scope) => {
      for (const child of [...scope.children.values()].sort((a, b) => a.first - b.first)) {
        const open = app.expanded.has(child.id);
        const share = child.all().reduce((sum, n) => sum + costs.values[n], 0) / total;
        const chosen = app.selection?.kind === "scope" && app.selection.id === child.id;
        rows.push(`<div class="row ${chosen ? "chosen" : ""}" data-scope="${escapeHtml(child.id)}" style="padding-left:${4 + 11 * (child.depth - 1)}px"
          title="${escapeHtml(child.path)}: ${child.count} nodes, ${(100 * share).toFixed(1)}% of ${escapeHtml(costs.what)}">
          <button class="fold" tabindex="-1" aria-label="${open ? "Fold" : "Unfold"}">${open ? "▾" : "▸"}</button>
          <span class="label">${escapeHtml(child.title)}</span><span class="count">${child.count}</span>
          <span class="bar"><b style="width:${(100 * share).toFixed(1)}%"></b></span></div>`);
        if (open) walk(child);
      }
    };
    walk(stage.root);
    const inputs = stage.inputs.map((_, v) => {
      const chosen = app.selection?.kind === "value" && app.selection.v === v;
      return `<div class="row ${chosen ? "chosen" : ""}" data-value="${v}" title="${escapeHtml(stage.label(v))}: ${escapeHtml(stage.type(v))}">
        <span class="label">${escapeHtml(stage.label(v).slice(1))}</span><span class="count">${escapeHtml(clip(stage.type(v), 18))}</span></div>`;
    });
    const heading = rows.length ? `<h2>Modules and lines</h2>` : "";
    this.element.innerHTML = `${heading}${rows.join("")}<h2>Inputs (${inputs.length})</h2>${inputs.join("")}`;
    this.element.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }
}
