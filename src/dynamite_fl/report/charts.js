"use strict";
// Draws all charts in the colours of the page, and redraws them when the colours or the size change.
let charts = JSON.parse(document.getElementById("charts").textContent);

function cssColor(name) {
  const [variable, alpha] = name.split("/");
  const color = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  if (alpha === undefined) return color;
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

const COLOR_KEYS = new Set(["color", "fillcolor"]);

// Returns a copy in which the names of colours are replaced by the page's current colours.
function withColors(value, key) {
  if (Array.isArray(value)) return value.map((entry) => withColors(entry, key));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, entry]) => [k, withColors(entry, k)]));
  }
  if (COLOR_KEYS.has(key) && typeof value === "string" && value.startsWith("--")) return cssColor(value);
  if (key === "colorscale" && value === "sequential") {
    return [0, 1, 2, 3].map((step) => [step / 3, cssColor(`--heat-${step}`)]);
  }
  return value;
}

function layoutOf(layout, width) {
  const [ink, soft, rule, sheet] = ["--ink", "--soft", "--rule", "--sheet"].map(cssColor);
  const axis = {
    gridcolor: rule, zerolinecolor: rule, linecolor: rule, automargin: true, fixedrange: coarse,
    tickfont: { size: 11 }, title: { font: { size: 12 }, standoff: 6 },
  };
  const merged = (own = {}) => ({
    ...axis, ...own, title: { ...axis.title, ...(own.title ?? {}) },
  });
  return {
    ...withColors(layout),
    width,
    autosize: false,
    xaxis: { showgrid: false, ...merged(withColors(layout.xaxis)) },
    yaxis: merged(withColors(layout.yaxis)),
    font: { family: getComputedStyle(document.body).fontFamily, color: soft, size: 12 },
    margin: { l: 8, r: 14, t: 10, b: 8, pad: 4 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hovermode: layout.hovermode ?? "x",
    hoverlabel: { bgcolor: sheet, bordercolor: rule, font: { color: ink } },
    dragmode: coarse ? false : "zoom",
    showlegend: false,
  };
}

const coarse = matchMedia("(pointer: coarse)").matches;

function traceOf(trace) {
  const colored = withColors(trace);
  const scale = colored.type === "heatmap" ? colored : colored.marker;
  if (scale?.colorbar) {
    scale.colorbar = { thickness: 10, outlinewidth: 0, tickfont: { size: 11 }, ...scale.colorbar };
  }
  return colored;
}

function draw() {
  for (const [id, chart] of Object.entries(charts)) {
    const plot = document.getElementById(id);
    Plotly.react(plot, chart.data.map(traceOf), layoutOf(chart.layout, plot.clientWidth), {
      displayModeBar: false, responsive: false,
    });
  }
}

let requested = 0;
function drawSoon() {
  cancelAnimationFrame(requested);
  requested = requestAnimationFrame(draw);
}

draw();
addEventListener("resize", drawSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("on-paper");
  draw();
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("on-paper");
  draw();
});
addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (button === null) return;
  const source = document.getElementById(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source); // a browser may forbid pages from files to copy
    button.textContent = "Selected";
  }
});
