// The steps of a run: what they cost, how good they were, and which of them stay.

const RECENT = 100; // steps in the table, until all are asked for
const HIGHEST = 1e307; // beyond, numbers have no differences; they are in the table
const MOST_POINTS = 400; // above, points are only in the way of the line

// Counted from the first one: beyond 2**53 adding 1 changes nothing, and neighbours may be one number.
function ticks(low, high, count) {
  const raw = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= raw),
    first = Math.ceil(low / step) * step;
  const all = Array.from({length: count + 1}, (_, index) => first + index * step);
  return [...new Set(all)].filter(at => at <= high + step * 1e-9);
}

function plot(name, points, format, fromZero) {
  const figureElement = make("figure", {class: "plot"}, make("figcaption", {}, name)),
    holder = make("div");
  figureElement.append(holder);
  onResize(holder, width => holder.replaceChildren(curve(name, points, format, fromZero, width)));
  return figureElement;
}

function curve(name, points, format, fromZero, width) {
  const height = 190,
    left = 62,
    right = 18,
    top = 10,
    bottom = 24;
  const steps = points.map(one => one.step),
    values = points.map(one => one.value);
  let [low, high] = [least(values), most(values)];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  [low, high] = [fromZero ? 0 : low >= 0 ? Math.max(0, low - room) : low - room, high + room];
  const first = least(steps),
    last = most(steps);
  const x = step =>
    last === first ? (left + width - right) / 2 : left + ((width - left - right) * (step - first)) / (last - first);
  const y = value => top + ((height - top - bottom) * (high - value)) / (high - low);
  const picture = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${name} of ${plural(points.length, "step")}, from ${format(values[0])} to ${format(values.at(-1))}. The table below has the numbers`,
  });
  const unit = fromZero ? 1024 ** Math.floor(Math.log(high) / Math.log(1024)) : 1; // bytes are counted in powers of two
  for (const tick of ticks(low / unit, high / unit, 4).map(one => one * unit)) {
    picture.append(draw("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}));
    picture.append(draw("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, format(tick)));
  }
  const marks =
    last === first ? [first] : ticks(first, last, Math.max(2, Math.floor(width / 110))).filter(Number.isInteger);
  for (const tick of marks)
    picture.append(draw("text", {x: x(tick), y: height - 6, "text-anchor": "middle"}, whole(tick)));
  picture.append(
    draw("path", {
      class: "curve",
      d: points.map((one, index) => `${index ? "L" : "M"}${x(one.step)} ${y(one.value)}`).join(""),
    }),
  );
  if (points.length <= MOST_POINTS) {
    for (const one of points)
      picture.append(
        draw(
          "circle",
          {class: one.kept ? "point" : "point goes", cx: x(one.step), cy: y(one.value), r: 3.5},
          draw("title", {}, `step ${one.name}: ${format(one.value)}, ${one.kept ? "stays" : "goes"}`),
        ),
      );
  }
  return picture;
}

function rulesShown(rules) {
  const said = [
    rules.keep_last && `keep_last=${rules.keep_last}`,
    rules.keep_every && `keep_every=${rules.keep_every}`,
    ...rules.keep_best.map(
      ([metric, order, count]) => `keep_best=(${JSON.stringify(metric)}, ${JSON.stringify(order)}, ${count})`,
    ),
  ].filter(Boolean);
  return said.length ? said.join(", ") : "no rules: all steps stay";
}

// After a rollback two steps may have one number, and of a long one JavaScript does not have all digits.
function nameOf({step, name}) {
  return name === String(step) ? whole(step) : name;
}

// Of metrics by name, which may be called like what every object has: constructor, __proto__.
const metric = (step, name) => (Object.hasOwn(step.metrics, name) ? step.metrics[name] : undefined);

const least = values => values.reduce((one, other) => Math.min(one, other));
const most = values => values.reduce((one, other) => Math.max(one, other));

function stepsTable(steps, names) {
  const body = make("tbody");
  const rows = count =>
    body.replaceChildren(
      ...steps
        .slice(-count)
        .reverse()
        .map(one =>
          make(
            "tr",
            {},
            make("th", {scope: "row", class: "number"}, nameOf(one)),
            make("td", {}, make("span", {class: one.kept ? "verdict good" : "verdict"}, one.kept ? "stays" : "goes")),
            make("td", {class: "why"}, one.why),
            make("td", {class: "number"}, one.nbytes === null ? "–" : bytes(one.nbytes)),
            names.map(name => make("td", {class: "number"}, figure(metric(one, name)))),
            make("td", {class: "number"}, moment(one.time)),
          ),
        ),
    );
  rows(RECENT);
  const heads = ["step", "verdict", "why", "size", ...names, "saved"].map((text, index) => [
    [1, 2].includes(index) ? "" : "number",
    text,
  ]);
  const table = scrollingTable("Steps", {class: "steps"}, headRow(heads), body);
  if (steps.length <= RECENT) return [table];
  const more = make(
    "button",
    {
      type: "button",
      class: "button more",
      onclick: () => {
        rows(steps.length);
        more.remove();
      },
    },
    `show all ${whole(steps.length)} steps`,
  );
  return [table, more];
}

function drawSteps(run) {
  const {steps} = run,
    names = [...new Set(steps.flatMap(one => Object.keys(one.metrics)))];
  const points = value =>
    steps
      .map(one => ({step: one.step, name: nameOf(one), kept: one.kept, value: value(one)}))
      .filter(one => typeof one.value === "number" && Math.abs(one.value) < HIGHEST);
  const plots = [
    ...names.map(name => [name, points(one => metric(one, name)), figure, false]),
    ["size of a step", points(one => one.nbytes), bytes, true],
  ];
  const stay = steps.filter(one => one.kept).length;
  return make(
    "section",
    {class: "card", "aria-labelledby": "steps"},
    make(
      "h2",
      {id: "steps"},
      `${plural(steps.length, "step")}, of which ${whole(stay)} ${stay === 1 ? "stays" : "stay"}`,
    ),
    make(
      "p",
      {class: "hint"},
      make("code", {}, rulesShown(run.rules)),
      ". Filled points stay, hollow ones go when the next step is saved.",
    ),
    make(
      "div",
      {class: "plots"},
      plots.filter(([, found]) => found.length).map(one => plot(...one)),
    ),
    ...stepsTable(steps, names),
  );
}
