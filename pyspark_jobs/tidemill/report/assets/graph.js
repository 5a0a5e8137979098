// The graph of commits: a lane for each branch, versions left to right.

const LANE = 74, LEFT = 12, ALONE = 40, RUN = 76, RADIUS = 7;

/** Make the graph. `select(points)` is called with the commits that the reader chose. */
function commitGraph(data, select) {
  const points = [...data.commits, ...data.others];
  const byLabel = new Map(points.map((one) => [one.label, one]));
  const lanes = data.graph.lanes, cells = data.graph.cells;
  const lanesWidth = Math.min(Math.max(...lanes.map((one) => one.length), 4), 18) * 7.5 + 22;
  const top = points.some((one) => one.tags.length || one.restores) ? 40 : 8;
  const columns = [];
  let x = LEFT;
  for (const [first, last] of cells) {
    const width = first === last ? ALONE : RUN;
    columns.push({ first, last, x: x + width / 2 });
    x += width;
  }
  const width = x + 16, height = top + lanes.length * LANE;
  const y = (lane) => top + lane * LANE + 20;
  const columnOf = (version) => columns.find((one) => one.first <= version && version <= one.last);
  const laneOf = new Map(lanes.map((name, number) => [name, number]));
  const edges = svg("g", { class: "edges", fill: "none" }), marks = svg("g");
  const nodes = [];

  for (const [lane, name] of lanes.entries()) {
    const own = points.filter((one) => one.branch === name).sort((a, b) => a.version - b.version);
    let before = null;
    for (const column of columns) {
      const inside = own.filter((one) => column.first <= one.version && one.version <= column.last);
      if (!inside.length) continue;
      if (before) {
        const undone = inside[0].undone || before.undone;
        edges.append(svg("path", { class: `lane color${lane % 8}${undone ? " undone" : ""}`,
          d: `M${before.x} ${y(lane)}H${column.x}` }));
      } else {
        fork(lane, inside[0], column);
      }
      nodes.push(node(lane, column, inside));
      before = { x: column.x, undone: inside[inside.length - 1].undone };
    }
  }
  for (const one of points) {
    if (one.restores) jump(one, one.restores, "rewind");
    if (one.promoted) jump(one, one.promoted, "promoted");
  }

  function fork(lane, first, column) {
    const from = byLabel.get(first.parent);
    const start = from && laneOf.has(from.branch) ? columnOf(from.version) : null;
    if (!start || from.branch === first.branch) return;
    const a = y(laneOf.get(from.branch)), b = y(lane), bend = Math.min(start.x + 36, column.x);
    edges.append(svg("path", { class: `lane color${lane % 8}`,
      d: `M${start.x} ${a}C${bend} ${a} ${start.x + 4} ${b} ${bend} ${b}H${column.x}` }));
  }

  /** An arrow to a commit from the one whose state it takes. */
  function jump(one, label, kind) {
    const from = byLabel.get(label), to = columnOf(one.version), b = y(laneOf.get(one.branch));
    if (!from || !laneOf.has(from.branch)) return;
    const start = columnOf(from.version), a = y(laneOf.get(from.branch));
    const d = a === b
      ? `M${start.x} ${a - RADIUS - 2}C${start.x} ${a - 36} ${to.x} ${a - 36} ${to.x} ${a - RADIUS - 4}`
      : `M${start.x} ${a}C${start.x + 18} ${(a + b) / 2} ${to.x} ${(a + b) / 2} ${to.x} ${b + (a > b ? 1 : -1) * (RADIUS + 4)}`;
    edges.append(svg("path", { class: `jump ${kind}`, d, "marker-end": "url(#tidemill-arrow)" }));
  }

  function node(lane, column, inside) {
    const alone = inside.length === 1, one = inside[0], correction = !one.carries_out;
    const text = alone ? nodeText(one) : `${countOf(inside.length, "commit")}, ${one.label} to ${inside.at(-1).label}`;
    const group = svg("g", { class: `node color${lane % 8}${one.undone ? " undone" : ""}`, role: "button", tabindex: "-1",
      "aria-label": text, transform: `translate(${column.x} ${y(lane)})`, "data-label": one.label },
      svg("title", null, text));
    if (!alone) {
      group.append(svg("rect", { class: "shape", x: -30, y: -10, width: 60, height: 20, rx: 10 }),
        svg("text", { class: "inside", y: 4 }, `×${count(inside.length)}`));
    } else {
      group.append(svg("circle", { class: "target", r: 16 }));
      if (correction) group.append(svg("path", { class: "shape", d: "M0 -9L9 0L0 9L-9 0Z" }));
      else group.append(svg("circle", { class: `shape${one.kind === "sweep" ? " sweep" : ""}`, r: one.kind === "sweep" ? 5 : RADIUS }));
      group.append(svg("text", { class: "version", y: 24 }, one.version));
      if (correction) group.append(svg("text", { class: "kind", y: 37 }, one.kind));
      if (one.tags.length) group.append(svg("text", { class: "tag", y: -16 }, shortened(one.tags.join(", "), 14)));
    }
    const made = { group, inside, lane, x: column.x };
    group.addEventListener("click", () => choose(made));
    group.addEventListener("keydown", (event) => keyed(event, made));
    marks.append(group);
    return made;
  }

  function choose(made) {
    for (const one of nodes) {
      one.group.setAttribute("tabindex", one === made ? "0" : "-1");
      one.group.classList.toggle("chosen", one === made);
    }
    select(made.inside);
  }

  function keyed(event, made) {
    const beside = (step) => {
      const lane = nodes.filter((one) => one.lane === made.lane);
      return lane[lane.indexOf(made) + step];
    };
    const above = (step) => nodes.filter((one) => one.lane === made.lane + step)
      .sort((a, b) => Math.abs(a.x - made.x) - Math.abs(b.x - made.x))[0];
    const moves = { ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => above(-1),
      ArrowDown: () => above(1), Home: () => nodes.filter((one) => one.lane === made.lane)[0],
      End: () => nodes.filter((one) => one.lane === made.lane).at(-1), Enter: () => made, " ": () => made };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = moves[event.key]();
    if (next) {
      choose(next);
      next.group.focus();
    }
  }

  const arrow = svg("marker", { id: "tidemill-arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7,
    markerHeight: 7, orient: "auto" }, svg("path", { class: "arrow", d: "M0 0L8 4L0 8Z" }));
  const picture = svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Graph of commits. Arrow keys move between commits." }, svg("defs", null, arrow), edges, marks);
  const names = svg("svg", { class: "graph lanes", width: lanesWidth, height, "aria-hidden": "true" },
    lanes.map((name, lane) => svg("g", { class: `name color${lane % 8}`, transform: `translate(0 ${y(lane)})` },
      svg("title", null, name), svg("circle", { class: "shape", cx: 6, r: 5 }),
      svg("text", { x: 17, y: 4, class: name === data.branch ? "open" : null }, shortened(name, 18)))));
  const box = h("div", { class: "graph-scroll" }, picture);
  const newest = nodes.find((one) => data.head && one.inside.some((point) => point.label === data.head.label));
  return {
    element: h("div", { class: "graph-box" }, names, box),
    /** Choose the head and show the newest commits. Call it once the graph is in the document. */
    start() {
      if (newest) choose(newest);
      box.scrollLeft = box.scrollWidth;
    },
    /** Choose the commit of a label, if the graph shows it. */
    choose(label) {
      const made = nodes.find((one) => one.inside.some((point) => point.label === label));
      if (!made) return;
      choose(made);
      select(made.inside.filter((point) => point.label === label));
      box.scrollLeft = made.x - box.clientWidth / 2;
    },
  };
}

function nodeText(one) {
  const parts = [`${one.label}, ${one.kind}`, timeText(one.batch_time_ms)];
  if (one.carries_out) parts.push(countOf(one.rows, "row"));
  if (one.undone) parts.push("undone");
  if (one.tags.length) parts.push(`tag ${one.tags.join(", ")}`);
  if (one.reason) parts.push(one.reason);
  return parts.join("; ");
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
