// Bytes as areas: by role, and within a role by what takes most.

const MOST_CELLS = 40;
const LETTER = 7.3,
  LINE = 16; // pixels that each takes

// Boxes of a row or column as near to squares as can be (Bruls, Huizing and van Wijk). `sizes` from the largest down; areas of the box.
function squarified(items, box) {
  const found = [];
  let {x, y, w, h} = box,
    left = items.filter(item => item.size > 0),
    total = left.reduce((sum, item) => sum + item.size, 0);
  while (left.length && w > 0 && h > 0) {
    const scale = (w * h) / total,
      side = Math.min(w, h);
    const worst = (sum, most, least) =>
      Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
    let count = 0,
      sum = 0;
    while (count < left.length) {
      const next = sum + left[count].size * scale;
      if (
        count &&
        worst(next, left[0].size * scale, left[count].size * scale) >
          worst(sum, left[0].size * scale, left[count - 1].size * scale)
      )
        break;
      sum = next;
      count += 1;
    }
    const depth = sum / side;
    let at = 0;
    for (const item of left.slice(0, count)) {
      const length = (item.size * scale) / depth;
      found.push({item, ...(w >= h ? {x, y: y + at, w: depth, h: length} : {x: x + at, y, w: length, h: depth})});
      at += length;
    }
    if (w >= h) {
      x += depth;
      w -= depth;
    } else {
      y += depth;
      h -= depth;
    }
    total -= left.slice(0, count).reduce((sum, item) => sum + item.size, 0);
    left = left.slice(count);
  }
  return found;
}

// What is alike is one area: of twelve layers each with a kernel, all kernels together.
function partsOf({nodes, label, role}) {
  const each = nodes.flatMap(node => (node.items ? node.below : [node]));
  return each[0].below
    .map((one, index) => {
      const same = each.map(node => node.below[index]);
      return {
        nodes: same,
        label: label + one.step,
        role,
        size: same.reduce((sum, node) => sum + (node.roles[role] ?? 0), 0),
      };
    })
    .filter(part => part.size);
}

function cellsOf(root) {
  const cells = ROLES.filter(role => root.roles[role]).map(role => ({
    nodes: [root],
    label: "",
    role,
    size: root.roles[role],
  }));
  while (cells.length < MOST_CELLS) {
    const open = cells.filter(cell => !cell.isWhole && cell.size > root.nbytes / 1000);
    if (!open.length) break;
    const largest = open.reduce((one, other) => (other.size > one.size ? other : one)),
      parts = partsOf(largest);
    if (!parts.length || cells.length + parts.length > MOST_CELLS + 16) largest.isWhole = true;
    else cells.splice(cells.indexOf(largest), 1, ...parts);
  }
  return cells.sort((one, other) => other.size - one.size);
}

function drawTreemap(root, show) {
  const cells = cellsOf(root),
    total = root.nbytes;
  const legend = make(
    "ul",
    {class: "legend"},
    ROLES.filter(role => root.roles[role]).map(role =>
      make(
        "li",
        {},
        make("span", {class: `dot role-${role}`}),
        `${role} `,
        make("span", {class: "soft"}, `${bytes(root.roles[role])}, ${share(root.roles[role] / total)}`),
      ),
    ),
  );
  const map = make("div", {
    class: "treemap",
    role: "group",
    "aria-label": "Bytes by role, as areas. Arrow keys move; Enter shows the leaves",
  });
  const buttons = new Map(
    cells.map(cell => {
      const {nodes, role, size} = cell,
        said = (cell.said = cell.label.replace(/^\./, "") || role);
      const button = make(
        "button",
        {
          type: "button",
          class: `cell role-${role}`,
          tabindex: -1,
          title: `${said}\n${role}: ${bytes(size)}, ${share(size / total)}`,
          "aria-label": `${said}, ${role}, ${bytes(size)}, ${share(size / total)}`,
          onclick: () => show(nodes[0]),
        },
        make("span", {}, said),
        make("span", {class: "size"}, bytes(size)),
      );
      return [cell, button];
    }),
  );
  const all = [...buttons.values()];
  map.append(...all);
  if (all[0]) all[0].tabIndex = 0;
  map.addEventListener("keydown", event => moveFocus(event, all));
  onResize(map, width => place(cells, buttons, root, width, map.clientHeight));
  return make(
    "section",
    {class: "card", "aria-labelledby": "bytes"},
    make("h2", {id: "bytes"}, "Bytes by role"),
    legend,
    map,
  );
}

function place(cells, buttons, root, width, height) {
  const roles = ROLES.filter(role => root.roles[role])
    .map(role => ({role, size: root.roles[role]}))
    .sort((one, other) => other.size - one.size);
  for (const {item, ...box} of squarified(roles, {x: 0, y: 0, w: width, h: height})) {
    for (const {item: cell, x, y, w, h} of squarified(
      cells.filter(one => one.role === item.role),
      box,
    )) {
      const button = buttons.get(cell),
        [name, size] = button.children;
      Object.assign(button.style, {
        left: `${x}px`,
        top: `${y}px`,
        width: `${w}px`,
        height: `${h}px`,
        padding: w < 24 || h < 20 ? "0" : "",
      });
      name.hidden = w < 44 || h < 24;
      name.textContent = ending(cell.said, Math.floor((w - 16) / LETTER) * Math.max(1, Math.floor((h - 26) / LINE)));
      size.hidden = w < 60 || h < 42;
    }
  }
}

// The end of a path says more than its beginning, which many have.
function ending(text, room) {
  return text.length <= room ? text : `…${text.slice(text.length - Math.max(1, Math.floor(room) - 1))}`;
}

// One of several buttons can be reached by Tab, the others from there by arrow keys.
function moveFocus(event, all) {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key],
    now = all.indexOf(document.activeElement);
  if (!step || now < 0) return;
  event.preventDefault();
  const next = all[(now + step + all.length) % all.length];
  all[now].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
