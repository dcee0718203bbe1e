// The tree, with sums of what is below each node, and with alike items as one.

const ROLES = ["params", "optimizer", "rng", "other"];
const FEWEST_LEAVES = 4; // that one row stands for: three values are as well read one by one

function isBad(leaf) {
  return Boolean(leaf.error || (leaf.stats && (leaf.stats.nans || leaf.stats.infinities)));
}

function typeOf(leaf) {
  if (leaf.kind === "empty") return "empty";
  if (leaf.kind === "value") return leaf.type;
  const sizes = leaf.shape.map((size, axis) => {
    const name = leaf.dims.length === leaf.shape.length ? leaf.dims[axis] : "";
    return !name || name === String(size) ? String(size) : `${name}=${size}`;
  });
  return `${leaf.dtype}[${sizes.join(", ")}]`;
}

function buildNode(raw, above, leaves) {
  const leaf = raw.leaf === undefined ? null : leaves[raw.leaf];
  const path = above ? above.path + raw.step : "$";
  const node = {
    step: raw.step,
    path,
    leaf,
    above,
    key: path,
    unnamed: Boolean(raw.unnamed || above?.unnamed),
    below: [],
    items: 0,
    nbytes: 0,
    leaves: 0,
    bad: 0,
    unread: 0,
    changed: 0,
    roles: {},
  };
  if (leaf) addLeaf(node, leaf);
  node.below = fold(
    (raw.below ?? []).map(one => buildNode(one, node, leaves)),
    node,
  );
  node.below.forEach(one => addNode(node, one));
  const [only] = node.below;
  if (only?.isRun && node.below.length === 1 && !leaf) {
    // all that is here is one run: one row, not two
    Object.assign(node, {step: raw.step + only.step, items: only.items, below: only.below});
    for (const one of node.below) one.above = node;
  }
  return node;
}

function addLeaf(node, leaf) {
  node.leaves += 1;
  node.nbytes += leaf.nbytes;
  node.roles[leaf.role] = (node.roles[leaf.role] ?? 0) + leaf.nbytes;
  node.bad += isBad(leaf);
  node.unread += !leaf.read;
  node.changed += Boolean(leaf.change && leaf.change.what && leaf.change.what !== "same");
}

function addNode(node, other) {
  for (const name of ["nbytes", "leaves", "bad", "unread", "changed"]) node[name] += other[name];
  for (const [role, count] of Object.entries(other.roles)) node.roles[role] = (node.roles[role] ?? 0) + count;
}

// What two nodes have in common if they are alike: all keys below, all types. Sizes of alike layers are the same.
function formOf(node) {
  node.form ??= `${node.leaf ? typeOf(node.leaf) : ""}{${node.below.map(one => `${one.step}:${formOf(one)}`).join(",")}}`;
  return node.form;
}

// Runs of items that are alike and whose keys count: [0], [1], …, or .block_0, .block_1, …
function fold(nodes, above) {
  const found = [];
  let run = [];
  const close = () => {
    if (run.length >= (run[0]?.leaf ? FEWEST_LEAVES : 2)) found.push(group(run, above));
    else found.push(...run);
    run = [];
  };
  for (const node of counted(nodes)) {
    const last = run.at(-1);
    const goesOn =
      last &&
      node.counted &&
      last.counted &&
      node.counted[1] === last.counted[1] &&
      node.counted[3] === last.counted[3] &&
      Number(node.counted[2]) === Number(last.counted[2]) + 1 &&
      formOf(node) === formOf(last);
    if (!goesOn) close();
    run.push(node);
  }
  close();
  return found;
}

// Formats without an order give 1, 10, 2: those of one name stand together, and are put in the order of their numbers.
function counted(nodes) {
  for (const node of nodes) node.counted = node.step.match(/^(.*?)(\d+)([^\d]*)$/);
  const found = [];
  const nameOf = node => node.counted && `${node.counted[1]}\n${node.counted[3]}`;
  for (const node of nodes) {
    if (found.length && nameOf(node) !== null && nameOf(found.at(-1)[0]) === nameOf(node)) found.at(-1).push(node);
    else found.push([node]);
  }
  return found.flatMap(one => (one.length > 1 ? one.sort((left, right) => left.counted[2] - right.counted[2]) : one));
}

function group(run, above) {
  const [, start, first, end] = run[0].counted,
    last = run.at(-1).counted[2];
  const step = `${start}${first}..${last}${end}`;
  const node = {
    step,
    path: above.path + step,
    key: `${above.key}\n${step}`,
    leaf: null,
    above,
    unnamed: true,
    isRun: true,
    below: run,
    items: run.length,
    nbytes: 0,
    leaves: 0,
    bad: 0,
    unread: 0,
    changed: 0,
    roles: {},
  };
  for (const one of run) {
    addNode(node, one);
    one.above = node;
  }
  return node;
}

// How restore is asked for it; null of what has no path of its own.
function askedFor(node) {
  return node.unnamed || node.path === "$" ? null : `at=${JSON.stringify(node.path.slice(1).replace(/^\./, ""))}`;
}
