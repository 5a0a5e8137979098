// Line and bar charts over versions, drawn by uPlot. Charts with the same key of `sync` share the cursor.

/**
 * Make a chart. `options`: title, unit (a text behind the title), series, x (the versions), bars, fill, stack, stepped,
 * whole (only whole numbers on the axis), yTime (times on the axis), value(number) for the legend, and xText(index),
 * which says what is at a place; axisText(x) is the text below an x, by default x itself. A series is {name, values, color}; color is the number of a colour.
 */
function chart(options, sync) {
  const plotted = options.stack ? stacked(options.series) : options.series;
  const values = h("div", { class: "legend", "aria-hidden": "true" });
  const place = h("div", { class: "plot" });
  const figure = h("figure", { class: "chart", role: "group", "aria-label": summary(options) },
    h("figcaption", null, options.title, options.unit ? h("span", { class: "unit" }, ` (${options.unit})`) : null),
    place, values);
  let plot = null;

  function legend(index) {
    const at = index === null || index === undefined ? options.x.length - 1 : index;
    const items = options.series.map((one) => h("span", { class: "item" },
      h("i", { class: `swatch color${one.color}` }), one.name ? `${one.name} ` : "",
      h("b", null, one.values[at] === null || one.values[at] === undefined ? DASH : options.value(one.values[at]))));
    values.replaceChildren(h("span", { class: "at" }, options.xText(at)), ...items);
  }

  function draw() {
    const width = Math.max(place.clientWidth, 200);
    const style = getComputedStyle(figure);
    const color = (name) => style.getPropertyValue(name).trim();
    if (plot) plot.destroy();
    plot = new uPlot({
      width, height: 170, pxAlign: 1,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: sync.key }, drag: { x: true, y: false }, points: { size: 7 } },
      hooks: { setCursor: [(one) => legend(one.cursor.idx)] },
      scales: { x: { time: false, range: within(options) }, y: { range: options.yTime ? around : fromZero } },
      axes: [
        axis(color, { size: 26, space: 60, incrs: whole(), values: (_, at) => at.map((one) => (options.axisText || trimmed)(one)) }),
        axis(color, {
          size: options.yTime ? 88 : 54, space: 34,
          values: (_, at) => at.map((one) => (options.yTime ? dayText(one, at) : brief(one))),
          ...(options.yTime ? { incrs: timeSteps() } : {}), ...(options.whole ? { incrs: whole() } : {}),
        }),
      ],
      series: [{}, ...plotted.map((one) => ({
        label: one.name || options.title, stroke: color(`--color${one.color}`), width: 2,
        fill: options.bars || options.fill ? `${color(`--color${one.color}`)}${options.bars ? "" : "22"}` : undefined,
        paths: options.bars ? uPlot.paths.bars({ size: [0.7, 28, 1] })
          : options.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: { show: options.bars ? false : options.x.length < 2 ? true : undefined, size: 5 },
        ...(options.bars ? { width: 0 } : {}),
      }))],
    }, [options.x, ...plotted.map((one) => one.values)], place);
    legend(null);
  }

  sync.charts.push({ draw, place });
  return figure;
}

function axis(color, rest) {
  return {
    stroke: color("--muted"), font: "11px system-ui, sans-serif", gap: 4,
    grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, ...rest,
  };
}

/** The x scale: all versions, with half a step on both sides, so that bars and single points are whole. */
function within(options) {
  return (_, least, most) => {
    const first = options.x[0], last = options.x[options.x.length - 1];
    return least <= first && most >= last ? [first - 0.6, last + 0.6] : [least, most];
  };
}

function fromZero(_, least, most) {
  if (least === null || least === undefined) return [0, 1];
  const low = Math.min(0, least), high = Math.max(most, 0);
  return high === low ? [low, low + 1] : [low < 0 ? low * 1.08 : 0, high * 1.08];
}

/** A scale of times, with room above and below. */
function around(_, least, most) {
  if (least === null || least === undefined) return [0, 1];
  const room = Math.max((most - least) * 0.05, 30000);
  return [least - room, most + room];
}

function whole() {
  const steps = [];
  for (let power = 1; power < 1e13; power *= 10) steps.push(power, 2 * power, 5 * power);
  return steps;
}

function timeSteps() {
  const minute = 6e4, hour = 3.6e6, day = 8.64e7;
  return [1, 10, 100, 1e3, 5e3, 1e4, 3e4, minute, 5 * minute, 15 * minute, 30 * minute, hour, 3 * hour, 6 * hour,
    12 * hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 364 * day, 1820 * day, 18200 * day];
}

/** A time on an axis: the day, or within a day the time of day. */
function dayText(ms, all) {
  const text = timeText(ms);
  const step = all.length > 1 ? all[1] - all[0] : 8.64e7;
  return step >= 8.64e7 ? text.slice(0, 10) : step >= 6e4 ? text.slice(5, 16) : text.slice(11, 19);
}

/** Series on top of each other. The topmost is drawn first, so that the lower ones cover it. */
function stacked(series) {
  const sums = [];
  let below = null;
  for (const one of series) {
    const values = one.values.map((value, at) => (value === null ? null : value + (below ? below[at] || 0 : 0)));
    sums.unshift({ ...one, values });
    below = values;
  }
  return sums;
}

function summary(options) {
  const parts = options.series.map((one) => {
    const known = one.values.filter((value) => value !== null && value !== undefined);
    if (!known.length) return `${one.name || options.title}: no values`;
    const most = options.value(known.reduce((a, b) => Math.max(a, b)));
    return `${one.name || options.title}: last ${options.value(known[known.length - 1])}, greatest ${most}`;
  });
  return `${options.title}${options.unit ? ` (${options.unit})` : ""}. ${parts.join(". ")}`;
}

/** The charts of a report, drawn together: at first, when the colours change, and when the width changes. */
function chartGroup(key) {
  const charts = [];
  const redraw = () => charts.forEach((one) => one.draw());
  let width = 0, waiting = 0;
  return {
    key, charts, redraw,
    /** Draw now, and again whenever the width of the element changes. */
    start(element) {
      width = element.clientWidth;
      redraw();
      new ResizeObserver(() => {
        if (element.clientWidth === width) return;
        width = element.clientWidth;
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(redraw);
      }).observe(element);
    },
  };
}

/** Values in a unit that keeps them short, and the name of the unit. */
function scaled(units, series) {
  let most = 0;
  for (const one of series) for (const value of one.values) most = Math.max(most, Math.abs(value || 0));
  const unit = unitOf(units, most);
  return {
    unit: unit.name,
    factor: unit.factor,
    series: series.map((one) => ({ ...one, values: one.values.map((v) => (v === null ? null : v / unit.factor)) })),
  };
}
