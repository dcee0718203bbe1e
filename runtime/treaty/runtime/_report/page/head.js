// What the checkpoint is: the top of the page.

const VERDICTS = {
  no: ["", "not verified"],
  checked: ["good", "verified: every byte as it was written"],
  readable: ["good", "verified: every array can be read (this format has no checksums)"],
  damaged: ["bad", "damaged"],
};

const chips = entries =>
  entries.length
    ? make(
        "div",
        {class: "chips"},
        entries.map(([name, value]) => make("span", {class: "chip"}, `${name}=${figure(value)}`)),
      )
    : null;

function facts(head) {
  const [colour, said] = VERDICTS[head.verified.state];
  const rows = [
    ["state", make("span", {class: `verdict ${colour}`}, said)],
    ["format", head.format],
    ["class", head.class && make("code", {}, head.class)],
    ["digest", head.digest && make("code", {}, head.digest)],
    ["revision", head.revision],
    ["step", head.step === null ? null : whole(head.step)],
    ["saved", head.time && moment(head.time)],
    ["metrics", chips(Object.entries(head.metrics))],
    ["dims", chips(Object.entries(head.dims))],
    [
      "leaves",
      `${whole(head.leaves)}, ${bytes(head.nbytes)} of arrays` +
        (head.stored_bytes === null || head.stored_bytes === head.nbytes
          ? ""
          : `, stored in ${bytes(head.stored_bytes)}`),
    ],
  ].filter(([, value]) => value !== null && value !== undefined);
  const list = definitions(rows);
  const metadata =
    head.metadata && make("details", {}, make("summary", {}, "metadata"), make("pre", {}, head.metadata));
  return metadata ? [list, metadata] : [list];
}

function drawHead(data) {
  const heads = data.checkpoints,
    last = heads.at(-1);
  const where = data.run ? data.run.where : last.path;
  const name = last?.class ? last.class.split(":").at(-1) : where.replace(/\/+$/, "").split("/").at(-1);
  document.title = `${name} – Treaty report`;
  const parts = [
    make("h1", {}, heads.length > 1 ? `${name}: what changed` : name),
    make("p", {class: "where mono"}, where),
  ];
  if (data.problems.length) {
    const lines = data.problems.map(line => make("li", {}, line));
    parts.push(
      make(
        "section",
        {class: "notice", "aria-labelledby": "wrong"},
        make("h2", {id: "wrong"}, "Something is wrong"),
        make("ul", {}, lines),
      ),
    );
  }
  if (heads.length > 1) {
    const cards = heads.map((head, index) =>
      make(
        "section",
        {class: "card"},
        make("h2", {}, index ? "After" : "Before"),
        make("p", {class: "where mono"}, head.path),
        ...facts(head),
      ),
    );
    parts.push(make("div", {class: "pair"}, cards));
  } else if (last) {
    parts.push(
      make(
        "section",
        {class: "card", "aria-label": "About this checkpoint"},
        data.run ? make("h2", {}, "The newest step") : null,
        ...facts(last),
      ),
    );
  }
  return parts;
}

function drawFoot(data) {
  const budget = data.budget;
  const read = !budget
    ? ""
    : budget.read_bytes === budget.all_bytes
      ? ` All ${bytes(budget.all_bytes)} of arrays were read for it.`
      : ` ${bytes(budget.read_bytes)} of ${bytes(budget.all_bytes)} were read for it.`;
  document.getElementById("foot").textContent = `Written by treaty ${data.treaty} at ${moment(data.made)}.${read}`;
}

function drawTheme() {
  const button = document.getElementById("theme"),
    root = document.documentElement;
  const isDark = () =>
    (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  try {
    root.dataset.theme = localStorage.getItem("treaty-theme") ?? "";
  } catch {
    /* a file may have no storage */
  }
  if (!["light", "dark"].includes(root.dataset.theme)) delete root.dataset.theme;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("treaty-theme", root.dataset.theme);
    } catch {
      /* as above */
    }
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
}
