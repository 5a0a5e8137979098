// The parts of the page, each made from the data of a report.

function facts(data) {
  const head = data.head;
  const bytes = data.operators.reduce((sum, one) => sum + one.bytes, 0);
  const rows = data.operators.reduce((sum, one) => sum + one.rows, 0);
  const items = [
    ["Head", head ? `version ${head.version}` : "no batch yet", head ? `${head.kind}, committed ${spanText(data.made_ms - head.committed_ms)} before this report` : "run the pipeline to make version 0"],
  ];
  if (head) {
    items.push(["Batch time", timeText(head.batch_time_ms), `${spanText(data.made_ms - head.batch_time_ms)} before this report`]);
    for (const one of data.watermarks) {
      items.push([`Watermark ${data.watermarks.length > 1 ? one.name : ""}`.trim(), timeText(one.time_ms),
        one.time_ms === null ? "no event yet"
          : `lag: ${spanText(one.behind_batch_time_ms)} at the batch time, ${spanText(one.behind_now_ms)} now`]);
    }
    items.push(["Waiting files", countOf(head.outstanding_files, "file"),
      head.oldest_waiting_ms === null ? "when the head was planned" : `oldest arrived ${spanText(Math.max(0, head.batch_time_ms - head.oldest_waiting_ms))} before the batch time`]);
    items.push(["State", countOf(rows, "row"), `${bytesText(bytes)} stored, ${countOf(data.operators.length, "operator")}`]);
  }
  for (const [clock, time] of Object.entries(data.next_deadline_ms)) items.push(["Next deadline", timeText(time), clock === "batch" ? "in batch time" : `in event time, ${clock.replace(/^event\//, "")}`]);
  return h("dl", { class: "facts" }, items.map(([name, value, more]) =>
    h("div", null, h("dt", null, name), h("dd", null, value, h("small", null, more)))));
}

/** The details of the chosen commits: one, or a run. */
function details(data, points) {
  if (points.length > 1) return runDetails(points);
  const one = points[0];
  const rows = [
    ["Kind", one.kind + (one.undone ? ", undone later" : "")],
    ["Reason", one.reason],
    ["Tags", one.tags.join(", ")],
    ["Follows", one.parent],
    ["Restores", one.restores],
    ["Takes over", one.promoted],
    ["Repeats", one.replays],
    ["Batch time", timeText(one.batch_time_ms)],
    ["Committed", timeText(one.committed_ms)],
  ];
  if (one.carries_out) {
    const seconds = duration(one) / 1000;
    rows.push(
      ["Input", `${countOf(one.rows, "row")}, ${countOf(one.files, "file")}, ${bytesText(one.bytes)}`],
      ["Late", one.late_rows || one.kept_late_rows ? `${count(one.late_rows)} not applied, ${count(one.kept_late_rows)} applied` : null],
      ["Quarantined", [["row", one.quarantined_rows], ["file", one.quarantined_files]]
        .filter(([, number]) => number).map(([what, number]) => countOf(number, what)).join(", ") || null],
      ["Output", Object.entries(one.outputs).map(([name, rows]) => `${name}: ${countOf(rows, "row")}`).join("; ")],
      ["Duration", `${spanText(duration(one))}${seconds && one.rows ? `, ${brief(one.rows / seconds)} rows/s` : ""}`],
      ["Waiting", one.outstanding_files ? countOf(one.outstanding_files, "file") : null]);
  }
  rows.push(
    ["State", Object.entries(one.state).map(([name, [rows, bytes]]) => `${name}: ${countOf(rows, "row")}, ${bytesText(bytes)}`).join("; ")],
    ["Watermark", Object.entries(one.watermarks).map(([name, time]) => `${name}: ${timeText(time)}`).join("; ")],
    ["Failed keys", Object.entries(one.failures).map(([name, why]) => `${name}: ${why}`).join("; ")],
    ["Engine", Object.entries(one.engine).map(([name, value]) => `${name} ${value}`).join(", ")],
    ["Airflow", Object.entries(one.airflow).map(([name, value]) => `${name} ${value}`).join(", ")]);
  return [h("h3", null, one.label), list(rows)];
}

function runDetails(points) {
  const first = points[0], last = points[points.length - 1];
  const sum = (of) => points.reduce((total, one) => total + of(one), 0);
  const kinds = [...new Set(points.map((one) => one.kind))].sort().map((kind) =>
    countOf(points.filter((one) => one.kind === kind).length, kind, kind === "batch" ? "batches" : null));
  return [h("h3", null, `${first.label} to ${last.label}`), list([
    ["Commits", kinds.join(", ") + (first.undone ? ", undone later" : "")],
    ["Batch time", `${timeText(first.batch_time_ms)} to ${timeText(last.batch_time_ms)}`],
    ["Input", `${countOf(sum((one) => one.rows), "row")}, ${countOf(sum((one) => one.files), "file")}`],
    ["Late", countOf(sum((one) => one.late_rows + one.kept_late_rows), "row")],
    ["Quarantined", countOf(sum((one) => one.quarantined_rows), "row")],
    ["Duration", `${spanText(sum(duration))} in all`],
  ])];
}

function list(rows) {
  return h("dl", { class: "details" }, rows.filter(([, value]) => value).map(([name, value]) =>
    h("div", null, h("dt", null, name), h("dd", null, value))));
}

function duration(one) {
  return Object.values(one.durations_ms).reduce((sum, value) => sum + value, 0);
}

const DURATIONS = { addBatch: "engine", walCommit: "preparing the commit" };

function charts(data, sync) {
  const commits = data.commits, x = commits.map((one) => one.version);
  const of = (name, color, value, always) => ({
    name, color, values: commits.map((one) => (always || one.carries_out ? value(one) : null)),
  });
  const xText = (at) => `version ${commits[at].version}${commits[at].carries_out ? "" : `, ${commits[at].kind}`}`;
  const bars = commits.length <= 150;
  const shared = { x, xText };
  const made = [
    chart({ ...shared, title: "Rows a batch", series: [of("", 0, (one) => one.rows)], bars, fill: true, whole: true,
      value: count }, sync),
  ];
  const parts = [...new Set(commits.flatMap((one) => Object.keys(one.durations_ms)))];
  const times = scaled(SPANS, parts.map((part, at) => of(DURATIONS[part] || part, at, (one) => one.durations_ms[part] ?? null)));
  if (parts.length) {
    made.push(chart({ ...shared, title: "Time a batch", unit: times.unit, series: times.series, bars, fill: true,
      stack: true, value: (v) => spanText(v * times.factor) }, sync));
  }
  made.push(chart({ ...shared, title: "Late and quarantined rows", bars, fill: true, stack: true, whole: true,
    series: [of("late, not applied", 1, (one) => one.late_rows), of("late, applied", 3, (one) => one.kept_late_rows),
      of("quarantined", 6, (one) => one.quarantined_rows)].filter((one, at) => at !== 1 || one.values.some((v) => v)),
    value: count }, sync));
  const marks = [...new Set(commits.flatMap((one) => Object.keys(one.watermarks)))].slice(0, 7);
  if (marks.length) {
    const lag = scaled(SPANS, marks.map((name, at) => of(marks.length > 1 ? name : "", at + 1,
      (one) => (one.watermarks[name] === null || one.watermarks[name] === undefined ? null : one.batch_time_ms - one.watermarks[name]), true)));
    made.push(chart({ ...shared, title: "Watermark lag", unit: lag.unit, series: lag.series,
      value: (v) => spanText(v * lag.factor) }, sync));
  }
  made.push(chart({ ...shared, title: `Batch time${marks.length ? " and watermark" : ""}`, unit: "UTC", yTime: true,
    series: [of("batch time", 0, (one) => one.batch_time_ms, true),
      ...marks.map((name, at) => of(marks.length > 1 ? name : "watermark", at + 1, (one) => one.watermarks[name] ?? null, true))],
    value: timeText }, sync));
  const operators = data.operators.map((one) => one.name).slice(0, 8);
  if (operators.length) {
    const of_state = (place) => operators.map((name, at) => of(operators.length > 1 ? name : "", at,
      (one) => (one.state[name] ? one.state[name][place] : null), true));
    made.push(chart({ ...shared, title: "Rows of state", series: of_state(0), whole: true, value: count }, sync));
    const bytes = scaled(BYTES, of_state(1));
    made.push(chart({ ...shared, title: "Stored bytes of state", unit: bytes.unit, series: bytes.series,
      value: (v) => bytesText(Math.round(v * bytes.factor)) }, sync));
  }
  made.push(chart({ ...shared, title: "Waiting files", bars, fill: true, whole: true,
    series: [of("", 2, (one) => one.outstanding_files)], value: count }, sync));
  return h("div", { class: "charts" }, made);
}

function operators(data) {
  return table([
    { name: "operator", cell: (one) => one.name }, { name: "kind", cell: (one) => one.kind },
    { name: "key", cell: (one) => one.key.join(", ") || DASH },
    { name: "rows", number: true, cell: (one) => count(one.rows) },
    { name: "stored", number: true, cell: (one) => bytesText(one.bytes) },
  ], data.operators, { label: "State of each operator" });
}

function commitsTable(data, rows, label, choose, step) {
  return table([
    { name: "version", cell: (one) => h("button", { type: "button", class: "link", onclick: () => choose(one.label) }, one.label) },
    { name: "kind", cell: (one) => one.kind },
    { name: "batch time", class: "time", cell: (one) => timeText(one.batch_time_ms) },
    { name: "rows", number: true, cell: (one) => ofPlan(one, one.rows) },
    { name: "time", number: true, cell: (one) => (one.carries_out ? spanText(duration(one)) : "") },
    { name: "late", number: true, cell: (one) => ofPlan(one, one.late_rows + one.kept_late_rows) },
    { name: "quarantined", number: true, cell: (one) => ofPlan(one, one.quarantined_rows) },
    { name: "remarks", cell: remarks },
  ], rows, { label, step, rowClass: (one) => (one.undone ? "undone" : null) });
}

function ofPlan(one, value) {
  return one.carries_out ? count(value) : "";
}

function remarks(one) {
  return [
    ...one.tags.map((name) => `tag ${name}`), one.undone ? "undone" : "",
    one.restores ? `restores ${one.restores}` : "", one.promoted ? `takes over ${one.promoted}` : "", one.reason || "",
  ].filter((text) => text).join("; ");
}

function lateAndQuarantined(data) {
  const late = !data.late.length ? note("No late rows in these commits.") : table([
    { name: "version", cell: (one) => one.version }, { name: "operator", cell: (one) => one.operator },
    { name: "event time", class: "time", cell: (one) => timeText(one.event_time_ms) },
    { name: "watermark", class: "time", cell: (one) => timeText(one.watermark_ms) },
    { name: "behind", number: true, cell: (one) => (one.event_time_ms === null ? DASH : spanText(one.watermark_ms - one.event_time_ms)) },
    { name: "file", cell: (one) => valueText(one.file) },
    { name: "row", number: true, cell: (one) => (one.row === null ? DASH : one.row) },
  ], data.late, { label: "Examples of late rows" });
  const rows = data.quarantined;
  const quarantined = !rows.length ? note("No quarantined rows in these commits.") : table([
    { name: "version", number: true, cell: (one) => one.version }, { name: "kind", cell: (one) => one.kind },
    { name: "source", cell: (one) => one.source }, { name: "file", cell: (one) => one.file },
    { name: "line", number: true, cell: (one) => one.line ?? one.row ?? DASH },
    { name: "reason", cell: (one) => one.reason }, { name: "row", class: "value", cell: (one) => valueText(one.text) },
  ], rows, { label: "Examples of quarantined rows" });
  return [h("h3", null, "Late rows, newest first"), late,
    h("h3", null, "Quarantined rows of the newest version that has any"), quarantined];
}

function diffSection(data) {
  const found = data.diff;
  const parts = found.parts.map((part) => {
    const numbers = [`${count(part.added)} added`, `${count(part.removed)} removed`];
    if (part.changed !== null) numbers.push(`${count(part.changed)} changed`);
    const examples = !part.examples.length ? null : part.what === "operator"
      ? table([
        { name: "key", class: "value", cell: (one) => keyText(one.key) },
        { name: `before (${found.before})`, class: "value", cell: (one) => valueText(one.before) },
        { name: `after (${found.after})`, class: "value", cell: (one) => valueText(one.after) },
      ], part.examples, { label: `Examples of ${part.name}` })
      : table([
        { name: "side", cell: (one) => one.side }, { name: "row", class: "value", cell: (one) => valueText(one.row) },
      ], part.examples, { label: `Examples of ${part.name}` });
    const differs = part.added || part.removed || part.changed;
    return h("div", { class: "part" },
      h("h3", null, `${part.what === "operator" ? "State of" : "Rows of sink"} ${part.name}: `,
        h("span", { class: "counts" }, differs ? numbers.join(", ") : "no difference")),
      part.notes.map((text) => note(text)), examples);
  });
  return [...parts, ...Object.entries(found.problems).map(([name, why]) => note(`${name} cannot be compared: ${why}`))];
}

function lookUp(one, sync) {
  const versions = one.history, x = versions.map((_, at) => at);
  const own = { ...sync, key: `${sync.key} ${one.operator} ${keyText(one.key)}` };
  const labelOf = (version) => (version.branch ? `${version.branch}@${version.version}` : `${version.version}`);
  const state = one.state.length
    ? h("pre", { class: "value" }, one.state.map((row) => JSON.stringify(row)).join("\n"))
    : note("This key has no state now.");
  const series = versions.length > 1 ? numbersOf(versions) : [];
  const drawn = !series.length ? null : h("div", { class: "charts" }, series.map((one) => chart({
    title: one.name ? `${one.name} by version` : "Value by version", x, series: [{ ...one, name: "" }], stepped: true,
    xText: (at) => `version ${labelOf(versions[at])}`, axisText: (at) => (versions[at] ? labelOf(versions[at]) : ""),
    value: (v) => v.toLocaleString("en-US", { maximumFractionDigits: 6 }) }, own)));
  const left = one.changes - versions.length;
  const listed = table([
    { name: "version", number: true, cell: labelOf },
    { name: "kind", cell: (version) => version.kind },
    { name: "batch time", class: "time", cell: (version) => timeText(version.batch_time_ms) },
    { name: "value", class: "value", cell: (version) => (version.value === null ? "removed" : valueText(version.value)) },
    { name: "caused by", cell: (version) => version.reason || version.files.join(", ") },
  ], [...versions].reverse(), { label: `History of ${keyText(one.key)}`, step: 10 });
  return h("div", { class: "part" },
    h("h3", null, `${one.operator}, key `, h("code", null, keyText(one.key))), state, drawn,
    note(countOf(one.changes, "change"), left > 0 ? `; the newest ${count(versions.length)} are shown` : "",
      versions.some((version) => version.is_oldest) ? "; older versions are no longer kept" : ""),
    versions.length ? listed : null);
}

/** A form for the state and the history of one key. */
function lookUpForm(data, ask) {
  const asked = data.look_ups[0];
  const operator = h("select", { name: "operator" }, data.operators.map((one) =>
    h("option", { value: one.name, selected: Boolean(asked) && asked.operator === one.name }, `${one.name} (${one.key.join(", ")})`)));
  const key = h("input", { name: "key", required: true, autocomplete: "off", placeholder: "a value, or a JSON list",
    value: asked ? keyText(asked.key) : null });
  return h("form", { class: "look-up", onsubmit: (event) => {
    event.preventDefault();
    ask(operator.value, key.value);
  } }, h("label", null, "operator ", operator), h("label", null, "key ", key), h("button", { type: "submit" }, "Look up"));
}

/** The numbers in the values of a key, by field: up to six. */
function numbersOf(versions) {
  const fields = new Map();
  versions.forEach((version, at) => {
    const value = version.value;
    const named = value !== null && typeof value === "object" && !Array.isArray(value) ? value : { "": value };
    for (const [name, found] of Object.entries(named)) {
      const number = typeof found === "string" && /^-?[0-9]+(\.[0-9]+)?$/.test(found) ? Number(found) : found;
      if (typeof number !== "number" || !Number.isFinite(number)) continue;
      if (!fields.has(name)) fields.set(name, versions.map(() => null));
      fields.get(name)[at] = number;
    }
  });
  return [...fields].slice(0, 6).map(([name, values]) => ({ name, values, color: 0 }));
}
