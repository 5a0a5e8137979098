TidemillReport.render(
  document.getElementById("report"),
  JSON.parse(document.getElementById("tidemill-data").textContent),
  (operator, key) => { location.search = new URLSearchParams({ operator, key }).toString(); });
