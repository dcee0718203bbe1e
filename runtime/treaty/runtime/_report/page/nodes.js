// The tree, with sums of what is below each node.

const ROLES = ["params", "optimizer", "rng", "other"];

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

// `run` is how items that are alike are written together; they are all that is below then.
function buildNode(raw, above, leaves) {
  const leaf = raw.leaf === undefined ? null : leaves[raw.leaf];
  const path = above ? above.path + raw.step : "$";
  const node = {
    step: raw.step + (raw.run ?? ""),
    path,
    leaf,
    above,
    key: raw.step ? path : `${path}\n${raw.run}`,
    isNamed: raw.step !== "",
    unnamed: Boolean(raw.unnamed || above?.unnamed),
    below: [],
    items: raw.run ? raw.below.length : 0,
    nbytes: 0,
    leaves: 0,
    bad: 0,
    unread: 0,
    changed: 0,
    roles: {},
  };
  if (leaf) addLeaf(node, leaf);
  node.below = (raw.below ?? []).map(one => buildNode(one, node, leaves));
  node.below.forEach(one => addNode(node, one));
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

// How restore is asked for it; null of what has no path of its own.
function askedFor(node) {
  return node.unnamed || !node.isNamed ? null : `at=${JSON.stringify(node.path.slice(1).replace(/^\./, ""))}`;
}
