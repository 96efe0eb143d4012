"""The script of the page: filters, search, sorting, folds that open for their links, light and dark.

The filters are part of the page's address, after the anchor: `#model-a?verdict=diverged`. They are in the fragment,
since the query of an address may be signed, and no server sees a fragment.
Without the script, everything is still there and can be read.
"""

from __future__ import annotations

SCRIPT = """
(() => {
  "use strict";
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const get = (id) => document.getElementById(id);

  // In a sandbox, such as the preview of an artifact, there is no storage: then a choice lasts as long as the page.
  const stored = (use) => { try { return use(localStorage); } catch { return null; } };
  const paint = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  // At once, so that nothing flashes: the rest waits for the page.
  paint(stored((storage) => storage.getItem("onnx-gate-theme")));
  const choose = () => {
    const theme = get("theme");
    theme.value = document.documentElement.dataset.theme ?? "";
    theme.addEventListener("change", () => {
      paint(theme.value);
      stored((storage) => storage.setItem("onnx-gate-theme", theme.value));
    });
    theme.closest("label").hidden = false;
  };

  // `#place?what=is&shown=there`; no anchor holds a question mark.
  const split = () => {
    const [place, ...rest] = location.hash.slice(1).split("?");
    return { place, asked: rest.length ? new URLSearchParams(rest.join("?")) : null };
  };
  const reveal = (place) => {
    for (const old of all(".here")) old.classList.remove("here");
    const target = place && get(place);
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.classList.add("here");
    target.scrollIntoView();
  };

  const start = () => {
    choose();
    const table = get("models");
    const form = get("filters");
    const arrive = table && form ? overview(table, form) : () => reveal(split().place);
    addEventListener("hashchange", arrive);
    arrive();
  };

  const overview = (table, form) => {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = all("th", table.tHead);
    const folds = new Map(all("details.model").map((fold) => [`row-${fold.dataset.row}`, fold]));
    const choices = ["verdict", "provider", "framework", "cause"].map((name) => ({ name, list: get(`by-${name}`) }));
    const [verdict, provider, framework, cause] = choices.map(({ list }) => list);
    const find = get("find");
    const unfold = get("unfold");
    const said = ({ cells: [name, why] }) => `${name.textContent} ${why.textContent}`.toLowerCase();
    const words = new Map(rows.map((row) => [row, said(row)]));
    let sorted = { head: null, up: true };
    let unknown = [];

    // With a provider, the verdict is the one on it.
    const matches = ({ v, p }) => !provider.value ? !verdict.value || v === verdict.value
      : p.split(" ").some((each) => each.startsWith(`${provider.value}:${verdict.value}`));
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        const fits = matches(row.dataset) && words.get(row).includes(wanted)
          && (!framework.value || row.dataset.f === framework.value) && (!cause.value || row.dataset.c === cause.value);
        row.hidden = !fits;
        const fold = folds.get(row.id);
        if (fold) fold.hidden = !fits;
        count += fits;
      }
      get("shown").textContent = [`${count} of ${rows.length} models shown`, ...unknown].join("; ");
      get("clear").disabled = !find.value && !sorted.head && choices.every(({ list }) => !list.value);
      for (const chip of chips) chip.setAttribute("aria-pressed", chip.value === verdict.value);
    };

    const key = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.k === undefined ? cell.textContent.trim() : Number(cell.dataset.k);
    };
    const compare = (one, other) => typeof one === "number" && typeof other === "number" ? one - other
      : typeof one === "number" ? 1 : typeof other === "number" ? -1 : one.localeCompare(other);
    const sort = (head, up) => {
      sorted = { head, up };
      for (const each of heads) each.removeAttribute("aria-sort");
      head?.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = heads.indexOf(head);
      const order = head ? [...rows].sort((one, other) => compare(key(one, column), key(other, column))) : [...rows];
      body.append(...(up ? order : order.reverse()));
    };
    const title = (head) => head.textContent.trim();

    // Names, as numbers of providers and frameworks mean something else in the next run.
    const numbered = [provider, framework];
    const named = ({ value, text, parentElement: list }) => value && numbered.includes(list) ? text : value;
    const read = (asked) => {
      unknown = [];
      for (const { name, list } of choices) {
        const value = asked.get(name) ?? "";
        const option = [...list.options].find((each) => named(each) === value);
        list.selectedIndex = option ? option.index : 0;
        if (!option) unknown.push(`this run has no ${name} ${value}`);
      }
      find.value = asked.get("find") ?? "";
      const [, down, column] = /^(-?)(.*)$/.exec(asked.get("sort") ?? "");
      sort(heads.find((head) => title(head) === column) ?? null, !down);
    };
    const remember = () => {
      const shown = new URLSearchParams();
      for (const { name, list } of choices) if (list.value) shown.set(name, named(list.selectedOptions[0]));
      if (find.value) shown.set("find", find.value);
      if (sorted.head) shown.set("sort", `${sorted.up ? "" : "-"}${title(sorted.head)}`);
      const address = split().place + (shown.size ? `?${shown}` : "");
      // Not everywhere that a page is shown does it have an address of its own.
      try { history.replaceState(null, "", address ? `#${address}` : location.href.split("#")[0]); } catch { return; }
    };
    const update = () => { unknown = []; filter(); remember(); };
    const clear = () => { form.reset(); sort(null, true); update(); };
    const arrive = () => {
      const { place, asked } = split();
      if (asked) read(asked);
      filter();
      // Whoever follows a link wants to see where it leads.
      if (place && get(place)?.closest("[hidden]")) clear();
      if (!unknown.length) remember();
      reveal(place);
    };

    // The counts at the top are the fastest filter: once for those models, once more for all.
    const chips = all(".counts li").map((item) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.value = item.className.replace("v-", "");
      chip.append(...item.childNodes);
      item.append(chip);
      chip.addEventListener("click", () => {
        verdict.value = chip.value === verdict.value ? "" : chip.value;
        update();
      });
      return chip;
    });
    for (const head of heads) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      // Numbers begin with the largest. A third press goes back to the worst first.
      const first = !head.classList.contains("r");
      button.addEventListener("click", () => {
        if (sorted.head !== head) sort(head, first);
        else if (sorted.up === first) sort(head, !first);
        else sort(null, true);
        update();
      });
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", update);
    get("clear").addEventListener("click", clear);
    unfold.addEventListener("click", () => {
      const opens = unfold.textContent === "Open all";
      for (const fold of folds.values()) fold.open = opens;
      unfold.textContent = opens ? "Close all" : "Open all";
    });
    form.hidden = false;
    return arrive;
  };

  document.addEventListener("DOMContentLoaded", start);
})();
"""
