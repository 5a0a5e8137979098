TidemillReport.render(
  document.getElementById("report"),
  JSON.parse(document.getElementById("tidemill-data").textContent));
