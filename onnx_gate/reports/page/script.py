"""What the page does beyond being read: filters, search, sorting, and folds that open for their links.

Without it everything is there and can be read.
"""

from __future__ import annotations

SCRIPT = """
(() => {
  "use strict";
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const table = document.getElementById("models");
  const form = document.getElementById("filters");
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();
  if (!table || !form) return;

  const body = table.tBodies[0];
  const rows = [...body.rows];
  const folds = new Map(all("details.model").map((fold) => [`row-${fold.dataset.row}`, fold]));
  const by = (name) => document.getElementById(`by-${name}`);
  const find = document.getElementById("find");
  const said = (row) => `${row.cells[0].textContent} ${row.cells[1].textContent}`.toLowerCase();
  const words = new Map(rows.map((row) => [row, said(row)]));
  const shown = document.getElementById("shown");
  const unfold = document.getElementById("unfold");

  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      const { v, p, f } = row.dataset;
      const fits = (!by("verdict").value || v === by("verdict").value)
        && (!by("provider").value || p.split(" ").includes(by("provider").value))
        && (!by("framework").value || f === by("framework").value)
        && words.get(row).includes(wanted);
      row.hidden = !fits;
      const fold = folds.get(row.id);
      if (fold) fold.hidden = !fits;
      count += fits;
    }
    shown.textContent = `${count} of ${rows.length} models shown`;
    for (const chip of chips) chip.setAttribute("aria-pressed", chip.value === by("verdict").value);
  };
  // The counts at the top are the fastest filter: once for those models, once more for all.
  const chips = all(".counts li").map((item) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.value = item.className.replace("v-", "");
    chip.append(...item.childNodes);
    item.append(chip);
    chip.addEventListener("click", () => {
      by("verdict").value = chip.value === by("verdict").value ? "" : chip.value;
      filter();
    });
    return chip;
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);

  unfold.addEventListener("click", () => {
    const opens = unfold.textContent === "Open all";
    for (const fold of folds.values()) fold.open = opens;
    unfold.textContent = opens ? "Close all" : "Open all";
  });

  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.k === undefined ? cell.textContent.trim() : Number(cell.dataset.k);
  };
  const compare = (one, other) => typeof one === "number" && typeof other === "number" ? one - other
    : typeof one === "number" ? 1 : typeof other === "number" ? -1 : one.localeCompare(other);
  all("th", table.tHead).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending" || !head.hasAttribute("aria-sort");
      for (const each of all("th", table.tHead)) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const sorted = [...rows].sort((one, other) => compare(key(one, column), key(other, column)));
      body.append(...(up ? sorted : sorted.reverse()));
    });
  });
  form.hidden = false;
  filter();
})();
"""
