// The components that Airflow loads: a page, a tab of each DAG, and a summary on the dashboard.

/** A React component around `mount(place, properties)`, which returns what ends it. Airflow provides React. */
function component(mount, style) {
  return function TidemillComponent(properties) {
    const React = globalThis.React;
    const place = React.useRef(null);
    const dagId = properties && properties.dagId;
    React.useEffect(() => mount(place.current, dagId), [dagId]);
    return React.createElement("div", { ref: place, className: "tidemill-place", style });
  };
}

/** Call `follow` whenever Airflow changes its colours; returns what ends that. */
function watchTheme(follow) {
  const observer = new MutationObserver(follow);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  return () => observer.disconnect();
}

function pageOf(place) {
  const body = inside(place);
  let view = null;
  const all = () => {
    if (view) view.end();
    view = allPipelines(body, one, false);
  };
  const one = (dagId) => {
    if (view) view.end();
    view = onePipeline(body, dagId, all);
  };
  all();
  const end = watchTheme(() => view.follow());
  return () => {
    end();
    view.end();
  };
}

function tabOf(place, dagId) {
  const view = onePipeline(inside(place), dagId, null);
  const end = watchTheme(view.follow);
  return () => {
    end();
    view.end();
  };
}

function summaryOf(place) {
  const open = () => location.assign(new URL("plugin/tidemill", document.baseURI).href);
  const view = allPipelines(inside(place), open, true);
  const end = watchTheme(view.follow);
  return () => {
    end();
    view.end();
  };
}

const WHOLE = { height: "100%", width: "100%", overflow: "auto" };
globalThis[NAMES[0]] = component(pageOf, WHOLE);
globalThis[NAMES[1]] = component(tabOf, WHOLE);
globalThis[NAMES[2]] = component(summaryOf, { width: "100%" });
