// One leaf in full: its numbers, its histogram, and what they were before.

const NUMBERS = [
  ["min", "min"],
  ["max", "max"],
  ["mean", "mean"],
  ["std", "std"],
  ["norm", "norm"],
];
const COUNTS = [
  ["count", "elements"],
  ["zeros", "zeros"],
  ["nans", "NaN"],
  ["infinities", "Inf"],
];

const CHANGES = {
  added: "added",
  removed: "removed",
  kind: "another kind",
  shape: "another shape",
  dtype: "another dtype",
  values: "changed",
  same: "the same",
};

function stateOf(leaf) {
  if (leaf.error) return "cannot be read";
  if (leaf.kind === "array" && !leaf.read) return "not read";
  return "";
}

function healthOf(leaf) {
  if (leaf.error) return make("span", {class: "flag"}, "damaged");
  if (leaf.stats && (leaf.stats.nans || leaf.stats.infinities)) {
    const said = [
      leaf.stats.nans && `${whole(leaf.stats.nans)} NaN`,
      leaf.stats.infinities && `${whole(leaf.stats.infinities)} Inf`,
    ];
    return make("span", {class: "flag"}, said.filter(Boolean).join(", "));
  }
  return make("span", {class: "soft"}, stateOf(leaf) || (leaf.stats?.count ? "finite" : ""));
}

function changeOf(leaf) {
  const {what, relative} = leaf.change;
  if (!what) return make("span", {class: "soft"}, "not read");
  if (what === "values" && relative !== undefined)
    return make(
      "span",
      {title: "norm of the difference over the norm before"},
      typeof relative === "number" ? relative.toExponential(1).replace("e+", "e") : relative,
    );
  return make("span", {class: what === "same" ? "soft" : ""}, CHANGES[what]);
}

function spark(histogram) {
  const most = Math.max(...histogram.counts),
    step = 92 / histogram.counts.length;
  const bars = histogram.counts
    .map((count, index) =>
      count ? `M${index * step} 20V${20 - Math.max(1, (19 * count) / most)}h${Math.max(step - 0.3, 0.5)}V20z` : "",
    )
    .join("");
  return draw("svg", {class: "spark", viewBox: "0 0 92 20", "aria-hidden": "true"}, draw("path", {d: bars}));
}

function bigHistogram(now, was) {
  const both = [now, was].filter(Boolean);
  const low = Math.min(...both.map(one => one.low)),
    high = Math.max(...both.map(one => one.low + one.width * one.counts.length));
  const most = Math.max(...both.flatMap(one => one.counts.map(count => count / one.width)));
  const x = value => (420 * (value - low)) / (high - low),
    y = (one, count) => 130 - (122 * (count / one.width)) / most;
  const picture = draw("svg", {
    class: "histogram",
    viewBox: "0 0 420 150",
    role: "img",
    "aria-label": `Histogram from ${figure(low)} to ${figure(high)}`,
  });
  if (now)
    picture.append(
      draw("path", {
        class: "bins",
        d: now.counts
          .map(
            (count, index) =>
              `M${x(now.low + now.width * index)} 130V${y(now, count)}H${x(now.low + now.width * (index + 1)) - 0.5}V130z`,
          )
          .join(""),
      }),
    );
  if (was)
    picture.append(
      draw("path", {
        class: "bins-was",
        d: `M${x(was.low)} 130${was.counts.map((count, index) => `V${y(was, count)}H${x(was.low + was.width * (index + 1))}`).join("")}V130`,
      }),
    );
  picture.append(draw("line", {class: "grid", x1: 0, x2: 420, y1: 130.5, y2: 130.5}));
  picture.append(
    draw("text", {x: 0, y: 146}, figure(low)),
    draw("text", {x: 420, y: 146, "text-anchor": "end"}, figure(high)),
  );
  return picture;
}

function numbersTable(leaf) {
  const columns = leaf.was_stats ? [leaf.was_stats, leaf.stats] : [leaf.stats];
  const cells = (name, format) => columns.map(stats => make("td", {class: "number"}, format(stats?.[name])));
  const rows = [
    ...COUNTS.map(([name, label]) => [label, cells(name, value => (value === undefined ? "–" : whole(value)))]),
    ...NUMBERS.map(([name, label]) => [label, cells(name, figure)]),
  ].map(([label, found]) => make("tr", {}, make("th", {scope: "row"}, label), found));
  const head = leaf.was_stats ? headRow([[], ["", "before"], ["", "after"]]) : null;
  return make("table", {}, make("caption", {class: "spoken"}, "Statistics"), head, make("tbody", {}, rows));
}

function changeLines(leaf) {
  const {what, relative, max_abs, same_elements, same_bits} = leaf.change ?? {};
  const lines = [["change", what ? CHANGES[what] : "not known: not read"]];
  if (leaf.was && what !== "same" && typeOf(leaf.was) !== typeOf(leaf)) lines.push(["before", typeOf(leaf.was)]);
  if (leaf.was && what !== "same" && leaf.was.declared !== leaf.declared)
    lines.push(["declared before", leaf.was.declared ?? "–"]);
  if (leaf.was?.value && what === "values") lines.push(["before", leaf.was.value]);
  if (relative !== undefined && what !== "same")
    lines.push(["relative norm", figure(relative)], ["largest difference", figure(max_abs)]);
  if (same_elements !== undefined && what !== "same")
    lines.push(["identical elements", share(same_elements)], ["identical bits", share(same_bits)]);
  return lines;
}

function leafDetail(node) {
  const leaf = node.leaf,
    asked = askedFor(node);
  const lines = [["type", typeOf(leaf)]];
  if (leaf.declared) lines.push(["declared", leaf.declared]);
  lines.push(["role", leaf.role]);
  if (leaf.value) lines.push(["value", leaf.value]);
  if (leaf.nbytes)
    lines.push([
      "size",
      bytes(leaf.nbytes) +
        (leaf.stored === null || leaf.stored === leaf.nbytes ? "" : `, stored in ${bytes(leaf.stored)}`),
    ]);
  if (leaf.error) lines.push(["damaged", leaf.error]);
  else if (stateOf(leaf)) lines.push(["numbers", "not read: beyond --max-bytes"]);
  if (leaf.dtype?.startsWith("complex")) lines.push(["numbers", "min to norm are of magnitudes"]);
  if (leaf.change) lines.push(...changeLines(leaf));
  const title = make(
    "p",
    {class: "path"},
    node.path,
    " ",
    asked
      ? make(
          "button",
          {type: "button", class: "copy", "aria-label": `Copy ${asked}`, onclick: () => copied(asked)},
          "copy at=",
        )
      : null,
  );
  const look = make("div", {class: "look"}, make("div", {}, definitions(lines, {class: "mono"})));
  if (leaf.stats || leaf.was_stats) look.append(make("div", {}, numbersTable(leaf)));
  if (leaf.stats?.histogram || leaf.was_stats?.histogram) {
    const caption = leaf.was_stats
      ? make(
          "p",
          {class: "hint"},
          make("span", {class: "mark role-params"}),
          "after  ",
          make("span", {class: "mark role-rng"}),
          "before",
        )
      : null;
    look.append(make("div", {}, caption, bigHistogram(leaf.stats?.histogram, leaf.was_stats?.histogram)));
  }
  return [title, look];
}
