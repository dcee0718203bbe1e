// The table of leaves: a tree that opens, or the leaves that a search or a filter finds.

const FIRST_ROWS = 28; // about as many are open at first
const PAGE = 200; // rows that are drawn of one node or one search, until more are asked for

class Tree {
  constructor(root, isCompared) {
    this.root = root;
    this.isCompared = isCompared;
    this.open = new Set();
    this.detailed = new Set();
    this.limits = new Map();
    this.filter = "all";
    this.focused = null;
    this.leaves = [...leavesBelow(root)];
    this.openFirst();
    this.search = make("input", {
      type: "search",
      id: "search",
      placeholder: "Search paths and types",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => {
        this.limits.clear();
        this.render(true);
      },
    });
    this.body = make("tbody");
    this.buttons = this.filters().map(([name, label]) =>
      make(
        "button",
        {
          type: "button",
          class: "button",
          "aria-pressed": String(name === "all"),
          "data-filter": name,
          onclick: () => this.choose(name),
        },
        label,
      ),
    );
    this.table = make("table", {class: "tree", role: "treegrid", "aria-label": "Leaves"}, this.heading(), this.body);
    this.body.addEventListener("keydown", event => this.onKey(event));
    onResize(this.table, () => {
      for (const cell of this.body.querySelectorAll("td[colspan]")) cell.colSpan = this.width();
    });
  }

  element() {
    const label = make("label", {for: "search"}, make("span", {class: "spoken"}, "Search leaves"), this.search);
    const keys = "Arrow keys move and open, Enter shows a leaf, c copies its path for restore(…, at=…).";
    this.render();
    return make(
      "section",
      {class: "card", id: "leaves", tabindex: -1, "aria-labelledby": "leaves-title"},
      make("h2", {id: "leaves-title"}, "Leaves"),
      make("div", {class: "tools"}, label, this.buttons),
      make("p", {class: "hint"}, `${this.health()} ${keys}`),
      this.table,
    );
  }

  filters() {
    const counts = {bad: this.root.bad, changed: this.root.changed, unread: this.root.unread};
    const shown = [
      ["bad", `NaN, Inf or damaged ${whole(counts.bad)}`],
      ["changed", `changed ${whole(counts.changed)}`],
      ["unread", `not read ${whole(counts.unread)}`],
    ];
    return [["all", `all ${whole(this.leaves.length)}`], ...shown.filter(([name]) => counts[name])];
  }

  health() {
    const read = this.leaves.filter(one => one.leaf.stats),
      bad = read.filter(one => isBad(one.leaf)).length;
    const said = bad
      ? `${plural(bad, "array")} of ${whole(read.length)} with NaN or Inf.`
      : read.length
        ? `No NaN or Inf in ${plural(read.length, "array")}.`
        : "";
    const unread = this.leaves.filter(one => !one.leaf.read),
      size = unread.reduce((sum, one) => sum + one.leaf.nbytes, 0);
    return unread.length
      ? `${said} ${plural(unread.length, "array")}, ${bytes(size)}, not read: more with --max-bytes.`
      : said;
  }

  heading() {
    const columns = [
      ["", "leaf"],
      ["c-type", "type"],
      ["c-size number", "size"],
      ["c-health", "health"],
      ["c-spread", "values"],
    ];
    if (this.isCompared) columns.push(["c-change number", "change"]);
    columns.push(["c-copy", ""]);
    return headRow(columns);
  }

  openFirst() {
    const pending = [...this.root.below];
    let rows = pending.length;
    while (pending.length) {
      const node = pending.shift();
      if (!node.below.length || node.items || rows + node.below.length > FIRST_ROWS) continue;
      this.open.add(node.key);
      rows += node.below.length;
      pending.push(...node.below);
    }
  }

  choose(name) {
    this.filter = name;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.filter === name));
    this.limits.clear();
    this.render(true);
  }

  showChanged() {
    this.search.value = "";
    this.choose("changed");
    this.table.scrollIntoView({block: "start"});
    this.rows()[0].focus({preventScroll: true});
  }

  // Show a node of the treemap: open all above it, and go there.
  show(node) {
    this.search.value = "";
    this.choose("all");
    for (let above = node.above; above; above = above.above) this.open.add(above.key);
    if (node.below.length) this.open.add(node.key);
    this.focused = node.key;
    this.render();
    const row = this.rowOf(node.key) ?? this.body.rows[0];
    row?.scrollIntoView({block: "center"});
    row?.focus({preventScroll: true});
  }

  found() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isIn = {all: () => true, bad: one => one.bad, changed: one => one.changed, unread: one => one.unread}[
      this.filter
    ];
    if (!words.length && this.filter === "all") return null;
    const found = this.leaves.filter(
      one =>
        isIn(one) &&
        words.every(word => `${one.path} ${typeOf(one.leaf)} ${one.leaf.role}`.toLowerCase().includes(word)),
    );
    return this.filter === "changed" ? found.sort((one, other) => howMuch(other.leaf) - howMuch(one.leaf)) : found;
  }

  render(isNew = false) {
    const found = this.found(),
      rows = [];
    if (found) this.addRows(rows, found, 1, "found", true);
    else this.addRows(rows, this.root.below, 1, this.root.key, false);
    if (!rows.length) rows.push(make("tr", {}, make("td", {colspan: this.width()}, "Nothing is found.")));
    this.body.replaceChildren(...rows);
    const all = this.rows(),
      focused = this.rowOf(this.focused) ?? all[0];
    if (focused) focused.tabIndex = 0;
    if (isNew)
      say(
        found ? `${plural(found.length, "leaf", "leaves")} found` : `${plural(this.leaves.length, "leaf", "leaves")}`,
      );
  }

  addRows(rows, nodes, level, key, isFlat) {
    const limit = this.limits.get(key) ?? PAGE;
    for (const node of nodes.slice(0, limit)) {
      rows.push(this.row(node, level, isFlat));
      if (this.detailed.has(node.key))
        rows.push(make("tr", {class: "detail"}, make("td", {colspan: this.width()}, leafDetail(node))));
      if (!isFlat && this.open.has(node.key)) this.addRows(rows, node.below, level + 1, node.key, false);
    }
    if (nodes.length > limit) {
      const more = make(
        "button",
        {
          type: "button",
          class: "button",
          onclick: () => {
            this.limits.set(key, limit + PAGE * 5);
            this.render();
          },
        },
        `show more of ${whole(nodes.length)}`,
      );
      rows.push(make("tr", {}, make("td", {colspan: this.width()}, more)));
    }
  }

  row(node, level, isFlat) {
    const {leaf} = node,
      hasBelow = node.below.length > 0 && !isFlat,
      isOpen = hasBelow ? this.open.has(node.key) : this.detailed.has(node.key);
    const name = make(
      "td",
      {class: "name", title: node.above.path + node.step},
      make(
        "div",
        {class: "label"},
        make("span", {class: "turn", "aria-hidden": "true"}, isOpen ? "▾" : "▸"),
        make(
          "span",
          {},
          make("bdi", {}, isFlat ? node.path : node.step.replace(/^\./, "")),
          node.items ? make("span", {class: "alike"}, `${whole(node.items)} alike`) : null,
        ),
      ),
    );
    name.style.paddingLeft = `${10 + 16 * Math.min(level - 1, 12)}px`;
    const asked = askedFor(node);
    const cells = [
      name,
      make(
        "td",
        {class: "type"},
        leaf ? (leaf.value ? `${typeOf(leaf)} ${leaf.value}` : typeOf(leaf)) : plural(node.leaves, "leaf", "leaves"),
      ),
      make("td", {class: "number"}, node.nbytes ? bytes(node.nbytes) : ""),
      make(
        "td",
        {class: "health"},
        leaf ? healthOf(leaf) : node.bad ? make("span", {class: "flag"}, `${whole(node.bad)} bad`) : "",
      ),
      make("td", {class: "spread"}, leaf?.stats?.histogram ? spark(leaf.stats.histogram) : ""),
    ];
    if (this.isCompared)
      cells.push(
        make(
          "td",
          {class: "number"},
          leaf
            ? changeOf(leaf)
            : node.changed
              ? `${whole(node.changed)} of ${whole(node.leaves)}`
              : make("span", {class: "soft"}, "the same"),
        ),
      );
    cells.push(
      make(
        "td",
        {class: "copies"},
        asked
          ? make(
              "button",
              {
                type: "button",
                class: "copy",
                tabindex: -1,
                title: `Copy ${asked}`,
                "aria-label": `Copy ${asked}`,
                onclick: event => {
                  event.stopPropagation();
                  copied(asked);
                },
              },
              "at=",
            )
          : "",
      ),
    );
    const row = make(
      "tr",
      {
        class: "row",
        tabindex: -1,
        "aria-level": level,
        "aria-expanded": String(isOpen),
        onclick: () => this.toggle(node, isFlat),
      },
      cells,
    );
    row.node = node;
    row.isFlat = isFlat;
    row.addEventListener("focus", () => this.onFocus(row));
    return row;
  }

  onFocus(row) {
    for (const other of this.rows()) other.tabIndex = -1;
    row.tabIndex = 0;
    this.focused = row.node.key;
  }

  toggle(node, isFlat) {
    const set = node.below.length && !isFlat ? this.open : this.detailed;
    if (!set.delete(node.key)) set.add(node.key);
    this.focused = node.key;
    this.render();
    this.rowOf(node.key)?.focus();
  }

  onKey(event) {
    const row = event.target;
    if (!row.node || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = this.rows(),
      now = all.indexOf(row),
      {node, isFlat} = row,
      isOpen = row.getAttribute("aria-expanded") === "true";
    const action = {
      ArrowDown: () => all[now + 1]?.focus(),
      ArrowUp: () => all[now - 1]?.focus(),
      Home: () => all[0].focus(),
      End: () => all.at(-1).focus(),
      ArrowRight: () => (isOpen ? node.below.length && all[now + 1]?.focus() : this.toggle(node, isFlat)),
      ArrowLeft: () => (isOpen ? this.toggle(node, isFlat) : this.rowOf(node.above?.key)?.focus()),
      Enter: () => this.toggle(node, isFlat),
      " ": () => this.toggle(node, isFlat),
      c: () => askedFor(node) && copied(askedFor(node)),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  rows() {
    return [...this.body.rows].filter(row => row.node);
  }
  rowOf(key) {
    return this.rows().find(row => row.node.key === key);
  }
  width() {
    return [...this.table.tHead.rows[0].cells].filter(cell => getComputedStyle(cell).display !== "none").length;
  } // of a phone fewer
}

// The most changed first, and before all arrays what has no norm: another structure, a value.
function howMuch(leaf) {
  const {what, relative} = leaf.change;
  return what !== "values" || typeof relative !== "number" ? Number.MAX_VALUE : relative;
}

function* leavesBelow(node) {
  if (node.leaf) yield node;
  for (const one of node.below) yield* leavesBelow(one);
}
