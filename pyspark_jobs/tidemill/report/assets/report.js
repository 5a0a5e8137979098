// Puts a report into an element: `TidemillReport.render(element, data, ask, theme, back)`. If there is `ask`, the user can
// look up a key, which calls `ask(operator, key)`. `theme` is "light" or "dark"; without it, the system's colours and a
// button to change them. `back` is called by a button. Returns `setTheme(theme)`.

function render(element, data, ask, theme, back) {
  const root = h("div", { class: "tidemill-report", "data-theme": theme || null });
  const sync = chartGroup("tidemill");
  const panel = h("div", { class: "panel", "aria-live": "polite" });
  const graph = data.commits.length ? commitGraph(data, (points) => panel.replaceChildren(...[details(data, points)].flat())) : null;
  const choose = (label) => {
    if (!graph) return;
    graph.choose(label);
    root.querySelector("#tidemill-graph").scrollIntoView({ block: "nearest" });
  };
  const corrections = [...data.commits].reverse().filter((one) => !one.carries_out);
  const hidden = data.branches.filter((one) => !one.shown).length;
  root.append(
    header(data, root, sync, theme, back),
    data.problems.length ? h("div", { class: "problems", role: "alert" }, h("h2", null, "Problems"),
      h("ul", null, data.problems.map((text) => h("li", null, text)))) : "",
    facts(data));
  if (graph) {
    root.append(
      section("graph", "Commits and branches", graph.element,
        h("p", { class: "key" }, keyItem("circle", "batch"), keyItem("ring", "sweep"), keyItem("diamond", "correction"),
          keyItem("pill", "a run of batches"), keyItem("grey", "undone"), "Choose a commit to see its details."),
        hidden ? note(`${countOf(hidden, "older branch", "older branches")} not shown.`) : null,
        data.dropped.length ? note(`Dropped branches: ${data.dropped.join(", ")}.`) : null, panel),
      section("charts", `Charts of ${countOf(data.commits.length, "commit")} of ${data.branch}`, charts(data, sync),
        note("Drag over a chart to zoom in; double-click to see all versions again.")));
  }
  if (data.operators.length) root.append(section("state", "State", operators(data)));
  if (data.commits.length) root.append(section("late", "Late and quarantined rows", lateAndQuarantined(data)));
  if (data.diff) root.append(section("diff", `Diff ${data.diff.before} → ${data.diff.after}`, diffSection(data)));
  const canAsk = ask && data.operators.length > 0;
  if (data.look_ups.length || canAsk) {
    root.append(section("look-ups", "Look-ups", canAsk ? lookUpForm(data, ask) : null,
      data.look_ups.map((one) => lookUp(one, sync))));
  }
  if (corrections.length) {
    root.append(section("corrections", "Corrections", commitsTable(data, corrections, "Corrections", choose, 10)));
  }
  if (data.commits.length) {
    root.append(section("commits", "Newest commits",
      commitsTable(data, [...data.commits].reverse(), "Newest commits", choose, 15)));
  }
  root.append(h("footer", null, `Made by Tidemill ${data.tidemill}. Times are UTC. Charts by uPlot (MIT licence).`));
  element.replaceChildren(root);
  sync.start(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sync.redraw);
  if (graph) graph.start();
  return { setTheme: (name) => {
    root.dataset.theme = name;
    sync.redraw();
  } };
}

function header(data, root, sync, theme, back) {
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = h("button", { type: "button", class: "theme", onclick: () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    sync.redraw();
  } });
  const name = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  name();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  return h("header", null,
    h("div", null, h("h1", null, data.pipeline, h("span", { class: "branch" }, `branch ${data.branch}`)),
      h("p", { class: "where" }, data.uri),
      h("p", { class: "where" }, `Made ${timeText(data.made_ms)} UTC`,
        data.kept_from > 0 ? `; versions from ${data.kept_from} on are kept` : "")),
    back ? h("button", { type: "button", class: "back", onclick: back }, "All pipelines") : null,
    theme ? null : button);
}

function keyItem(shape, text) {
  const inside = {
    circle: () => svg("circle", { class: "shape", cx: 8, cy: 8, r: 6 }),
    ring: () => svg("circle", { class: "shape sweep", cx: 8, cy: 8, r: 5 }),
    diamond: () => svg("path", { class: "shape", d: "M8 0L16 8L8 16L0 8Z" }),
    pill: () => svg("rect", { class: "shape", x: 0, y: 3, width: 26, height: 10, rx: 5 }),
    grey: () => svg("circle", { class: "shape", cx: 8, cy: 8, r: 6 }),
  }[shape]();
  const width = shape === "pill" ? 26 : 16;
  return h("span", { class: "item" }, svg("svg", { class: `graph node color0${shape === "grey" ? " undone" : ""}`, width, height: 16, "aria-hidden": "true" }, inside), text);
}

globalThis.TidemillReport = { render, h, table, count, countOf, bytesText, spanText, timeText };
