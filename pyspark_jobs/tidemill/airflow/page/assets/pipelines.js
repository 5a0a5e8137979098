// The pages of Tidemill in Airflow: all pipelines, and the report of one. Data comes from the routes of the plugin.

const { render, h, table, count, countOf, bytesText, spanText, timeText } = globalThis.TidemillReport;
const REFRESH_MS = 15000;

/** Get JSON from a route of the plugin. The error says what the server said. */
async function load(path) {
  const answer = await fetch(new URL(`tidemill/${path}`, document.baseURI), { credentials: "same-origin" });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(typeof found.detail === "string" ? found.detail : `the server answered ${answer.status}`);
  return found;
}

/** The colours of Airflow's page. */
function theme() {
  return document.documentElement.classList.contains("dark") ? "dark" : "light";
}

/** A place of its own in an element, which styles of Airflow do not reach. */
function inside(place) {
  const root = place.shadowRoot || place.attachShadow({ mode: "open" });
  const body = h("div");
  root.replaceChildren(h("style", null, STYLE), body);
  return body;
}

function framed(isShort, ...children) {
  return h("div", { class: `tidemill-report${isShort ? " short" : ""}`, "data-theme": theme() }, children);
}

function problem(error, back) {
  return framed(true, h("div", { class: "problems", role: "alert" }, h("h2", null, "Cannot show this"), h("p", null, error.message)),
    back ? h("button", { type: "button", class: "back", onclick: back }, "All pipelines") : null);
}

/**
 * Show the report of a pipeline, and look up keys in it. Returns `follow`, to call after a change of Airflow's colours, and
 * `end`, after which no answer that is still under way is shown.
 */
function onePipeline(body, dagId, back) {
  let shown = null, last = 0, failed = null;
  async function show(asked) {
    const mine = ++last;
    if (!shown) body.replaceChildren(framed(false, h("p", { class: "note", role: "status" }, "Reading the repository…")));
    try {
      const query = asked ? `?${new URLSearchParams(asked)}` : "";
      const data = await load(`pipelines/${encodeURIComponent(dagId)}/report${query}`);
      if (mine !== last) return;
      const element = h("div");
      failed = null;
      body.replaceChildren(element);
      shown = render(element, data, (operator, key) => show({ operator, key }), theme(), back);
      if (asked) body.querySelector("#tidemill-look-ups").scrollIntoView({ block: "start" });
    } catch (error) {
      if (mine !== last) return;
      if (failed) failed.remove();
      failed = problem(error, shown ? null : back);
      if (!shown) body.replaceChildren(failed);  // a report that is there stays, below what failed
      else body.prepend(failed);
      failed.scrollIntoView({ block: "start" });
    }
  }
  show(null);
  return { follow: () => shown && shown.setTheme(theme()), end: () => { last = -1; } };
}

/** Show all pipelines; `open` is called with the DAG of one that the user chooses. */
function allPipelines(body, open, isShort) {
  let found = null, ended = false;
  const draw = () => found && body.replaceChildren(framed(isShort,
    isShort ? null : h("header", null, h("div", null, h("h1", null, "Tidemill"),
      h("p", { class: "where" }, countOf(found.length, "pipeline"), ". What the newest run of each has left; times are UTC."))),
    h("section", null, isShort ? h("h2", null, "Tidemill") : null, found.length ? pipelineTable(found, open, isShort)
      : h("p", { class: "note" }, "No DAG of Tidemill that you may read. tidemill_dags(…) makes them."))));
  const refresh = async () => {
    try {
      const answer = await load("pipelines");
      if (ended) return;
      found = answer.pipelines;
      draw();
    } catch (error) {
      if (!ended) body.replaceChildren(problem(error));
    }
  };
  refresh();
  const timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
  return { follow: draw, end: () => {
    ended = true;
    clearInterval(timer);
  } };
}

function pipelineTable(found, open, isShort) {
  const of = (name) => (one) => one.summary[name];
  const columns = [
    { name: "pipeline", cell: (one) => [
      h("button", { type: "button", class: "link", onclick: () => open(one.dag_id) }, one.dag_id),
      one.branch === "main" ? null : ` ${one.branch}`, one.is_paused ? h("span", { class: "badge" }, "paused") : null] },
    { name: "head", number: true, cell: (one) => count(one.summary.head) },
    { name: "committed", class: "time", cell: (one) => ago(one.summary.committed) },
    { name: "lag of the watermark", cell: lagOf },
    { name: "files waiting", number: true, cell: (one) => count(one.summary.files_waiting) },
    { name: "runs, newest first", cell: (one) => h("span", { class: "runs", role: "img", "aria-label": runsText(one.states) },
      one.states.map((state) => h("i", { class: `run ${state}`, title: state }))) },
    { name: "to approve", cell: (one) => one.approvals.map((wait) => h("a", {
      href: new URL(`dags/${encodeURIComponent(wait.dag_id)}/runs/${encodeURIComponent(wait.run_id)}/tasks/${encodeURIComponent(wait.task_id)}`, document.baseURI).href,
      target: "_top" }, `a ${wait.dag_id.endsWith("__correct") ? "correction" : "replay"} waits`)) },
  ];
  const more = [
    { name: "state", number: true, cell: (one) => (of("state_rows")(one) === null || of("state_rows")(one) === undefined ? count(null)
      : `${countOf(of("state_rows")(one), "row")}, ${bytesText(of("state_bytes")(one))}`) },
    { name: "rows of the last run", number: true, cell: rowsOf },
    { name: "next deadline", class: "time", cell: (one) => Object.entries(of("next_deadline")(one) || {})
      .map(([timer, time]) => `${time.slice(0, 16).replace("T", " ")} (${timer})`).join(", ") },
  ];
  return table(isShort ? columns : [...columns.slice(0, 5), ...more, ...columns.slice(5)], found, { label: "Pipelines" });
}

function ago(time) {
  return time ? `${spanText(Math.max(Date.now() - Date.parse(time), 0))} ago` : count(null);
}

function lagOf(one) {
  const marks = Object.values(one.summary.watermarks || {}).map((time) => Date.parse(time)).filter((time) => time > 0);
  return marks.length ? spanText(Math.max(Date.now() - Math.min(...marks), 0)) : count(null);
}

function rowsOf(one) {
  const { rows, batches_ms: ms, late_rows: late, quarantined_rows: bad, quarantined_files: files } = one.summary;
  if (rows === null || rows === undefined) return count(null);
  const rate = ms ? `, ${count(Math.round((rows * 1000) / ms))} a second` : "";
  const kept = [late && `${count(late)} late`, bad && `${count(bad)} quarantined`, files && `${countOf(files, "file")} quarantined`];
  return [`${count(rows)}${rate}`, ...kept.filter(Boolean)].join("; ");
}

function runsText(states) {
  const failed = states.filter((state) => state === "failed").length;
  return `${countOf(states.length, "run")}, ${count(failed)} failed`;
}
