// Elements of the page. Every text goes through textContent, so no value of a user becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element. `attributes` may have `class`, `on<event>` functions and any attribute; null leaves one out. */
function h(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an SVG element. */
function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** A table. A column is {name, number, cell(row)}; `cell` returns a text, an element, or nothing. */
function table(columns, rows, options) {
  const settings = options || {};
  const body = h("tbody");
  const more = h("button", { type: "button", class: "more", hidden: true });
  const step = settings.step || 25;
  let shown = 0;
  function show() {
    for (const row of rows.slice(shown, shown + step)) {
      body.append(h("tr", { class: settings.rowClass ? settings.rowClass(row) : null },
        columns.map((column) => h("td", { class: column.number ? "number" : column.class || null }, column.cell(row)))));
    }
    shown = Math.min(shown + step, rows.length);
    more.hidden = shown >= rows.length;
    more.textContent = `Show more (${count(rows.length - shown)} left)`;
  }
  more.addEventListener("click", show);
  show();
  const head = h("tr", null, columns.map((column) =>
    h("th", { scope: "col", class: column.number ? "number" : null }, column.name)));
  return h("div", null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": settings.label || "table" },
      h("table", null, h("thead", null, head), body)),
    more);
}

function section(id, title, ...children) {
  return h("section", { id: `tidemill-${id}`, "aria-labelledby": `tidemill-${id}-title` },
    h("h2", { id: `tidemill-${id}-title` }, title), children);
}

function note(...children) {
  return h("p", { class: "note" }, children);
}
