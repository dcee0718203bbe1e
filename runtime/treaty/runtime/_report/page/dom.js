// Elements and numbers. What comes from a checkpoint becomes text and nothing else: there is no HTML made of strings here.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined && child !== "") element.append(child);
  return element;
}

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Columns by class and name; one without a name has no heading.
const headRow = columns =>
  make(
    "thead",
    {},
    make(
      "tr",
      {},
      columns.map(([name, text]) => (text ? make("th", {class: name, scope: "col"}, text) : make("td", {class: name}))),
    ),
  );

const scrollingTable = (label, attributes, ...parts) =>
  make(
    "div",
    {class: "scrolls", tabindex: 0, role: "region", "aria-label": label},
    make("table", attributes, ...parts),
  );

const definitions = (lines, attributes) =>
  make(
    "dl",
    {class: "facts"},
    lines.map(([name, value]) => [make("dt", {}, name), make("dd", attributes, value)]),
  );

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0,
    left = count;
  while (left >= 1024 && power < units.length - 1) {
    left /= 1024;
    power += 1;
  }
  return power ? `${left.toFixed(1)} ${units[power]}` : `${count} B`;
}

const whole = count => (typeof count === "string" ? count : count.toLocaleString("en"));
const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
const share = part =>
  part === 1 ? "100%" : part > 0.9995 ? ">99.9%" : part > 0 && part < 0.0005 ? "<0.1%" : `${(100 * part).toFixed(1)}%`;

// Numbers that JSON or a browser would change come as text: NaN, infinities, long integers.
function figure(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return String(value).replace("Infinity", "inf").replace("NaN", "nan"); // as in such a text
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(5))) : value.toExponential(3).replace("e+", "e");
}

const numberOf = value => (typeof value === "string" ? Number(value.replace("inf", "Infinity")) : value);

const moment = text => (text === null ? "–" : text.replace("T", " ").replace("+00:00", " UTC"));

function say(text) {
  document.getElementById("spoken").textContent = text;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // a page from a server without https has no clipboard of its own
    const field = make("textarea", {class: "spoken"});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  say(`copied ${text}`);
}

function onResize(element, redraw) {
  let width = 0;
  new ResizeObserver(([seen]) => {
    if (Math.abs(seen.contentRect.width - width) < 1) return;
    width = seen.contentRect.width;
    redraw(width);
  }).observe(element);
}
