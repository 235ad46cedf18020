"use strict";
// Draws every chart in the colours of the page, and anew when these or the paper change.
const charts = JSON.parse(document.getElementById("charts").textContent);

function cssColor(name) {
  const [variable, alpha] = name.split("/");
  const color = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  if (alpha === undefined) return color;
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

const COLOR_KEYS = new Set(["color", "fillcolor"]);

// A copy in which colours are those that the page has now.
function dressed(value, key) {
  if (Array.isArray(value)) return value.map((each) => dressed(each, key));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, each]) => [k, dressed(each, k)]));
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
    ...dressed(layout),
    width,
    autosize: false,
    xaxis: { showgrid: false, ...merged(dressed(layout.xaxis)) },
    yaxis: merged(dressed(layout.yaxis)),
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
  const worn = dressed(trace);
  const scale = worn.type === "heatmap" ? worn : worn.marker;
  if (scale?.colorbar) {
    scale.colorbar = { thickness: 10, outlinewidth: 0, tickfont: { size: 11 }, ...scale.colorbar };
  }
  return worn;
}

function draw() {
  for (const [id, chart] of Object.entries(charts)) {
    const place = document.getElementById(id);
    Plotly.react(place, chart.data.map(traceOf), layoutOf(chart.layout, place.clientWidth), {
      displayModeBar: false, responsive: false,
    });
  }
}

let waiting = 0;
function drawSoon() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(draw);
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
for (const button of document.querySelectorAll("button[data-copies]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source); // a page from a file may not be allowed to copy
      button.textContent = "Selected";
    }
  });
}
