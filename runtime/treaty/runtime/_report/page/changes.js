// What became of the leaves between two checkpoints, in sums.

const STRUCTURE = {
  added: "added",
  removed: "removed",
  kind: "of another kind",
  shape: "of another shape",
  dtype: "of another dtype",
};

function sums(leaves) {
  const found = {leaves: leaves.length, changed: 0, apart: 0, before: 0, compared: 0, elements: 0, bits: 0, unread: 0};
  for (const {change, was_stats} of leaves) {
    found.unread += !change.what;
    found.changed += Boolean(change.what && change.what !== "same");
    if (change.relative !== undefined) {
      found.apart += numberOf(change.norm) ** 2;
      found.before += numberOf(was_stats.norm ?? 0) ** 2;
    }
    if (change.same_elements !== undefined) {
      found.compared += was_stats.count;
      found.elements += change.same_elements * was_stats.count;
      found.bits += change.same_bits * was_stats.count;
    }
  }
  return found;
}

function changeRow(role, leaves) {
  const {changed, apart, before, compared, elements, bits} = sums(leaves);
  const cells = [
    `${whole(changed)} of ${whole(leaves.length)}`,
    apart || before ? figure(Math.sqrt(apart / before)) : "–",
    compared ? share(elements / compared) : "–",
    compared ? share(bits / compared) : "–",
  ];
  return make(
    "tr",
    {},
    make("th", {scope: "row"}, make("span", {class: `mark role-${role}`}), role),
    cells.map(text => make("td", {class: "number"}, text)),
  );
}

function drawChanges(data, tree) {
  const {
      leaves,
      checkpoints: [before, after],
    } = data,
    all = sums(leaves);
  const kinds = Object.entries(STRUCTURE)
    .map(([what, said]) => [leaves.filter(leaf => leaf.change.what === what).length, said])
    .filter(([count]) => count);
  const said = [
    all.changed
      ? `${whole(all.changed)} of ${plural(all.leaves, "leaf", "leaves")} changed`
      : `None of ${plural(all.leaves, "leaf", "leaves")} changed`,
    ...kinds.map(([count, text]) => `${whole(count)} ${text}`),
    ...(all.unread ? [`${whole(all.unread)} not read`] : []),
  ].join(", ");
  const same =
    before.digest && after.digest
      ? before.digest === after.digest
        ? " Both are of one declaration."
        : " The declaration changed."
      : "";
  const heads = ["role", "leaves changed", "relative norm", "identical elements", "identical bits"].map(
    (text, index) => [index ? "number" : "", text],
  );
  const rows = ROLES.map(role => [role, leaves.filter(leaf => leaf.role === role)])
    .filter(([, found]) => found.length)
    .map(one => changeRow(...one));
  return make(
    "section",
    {class: "card", "aria-labelledby": "changes"},
    make("h2", {id: "changes"}, "What changed"),
    make("p", {class: "summary"}, `${said}.${same}`),
    scrollingTable("Changes by role", {}, headRow(heads), make("tbody", {}, rows)),
    all.changed
      ? make(
          "button",
          {type: "button", class: "button more", onclick: () => tree.showChanged()},
          "Show them, the most changed first",
        )
      : null,
  );
}
