"use strict";
// Keeps the page up to date: asks for its state again and again, and shows what has changed.
const SECONDS_BETWEEN_REQUESTS = 2;
const live = document.getElementById("live");
let known = "";
let since = Date.now(); // of the last change

// Puts new markup into the page. Charts stay where they are, so that they do not flicker.
function replaceBody(markup) {
  const next = document.createElement("main");
  next.innerHTML = markup;
  const main = document.getElementById("body");
  const opened = [...main.querySelectorAll("details")].map((part) => part.open);
  [...next.querySelectorAll("details")].forEach((part, place) => { part.open = opened[place] ?? false; });
  for (const place of next.querySelectorAll(".plot")) {
    const plot = document.getElementById(place.id);
    if (plot !== null) {
      plot.style.height = place.style.height;
      place.replaceWith(plot);
    }
  }
  for (const gone of main.querySelectorAll(".plot")) Plotly.purge(gone);
  main.replaceChildren(...next.childNodes);
}

function show(state) {
  document.title = state.title;
  document.getElementById("title").textContent = state.title;
  document.getElementById("above").textContent = state.above;
  document.getElementById("below").innerHTML = state.below;
  document.getElementById("links").innerHTML = state.links;
  replaceBody(state.body);
  charts = state.charts;
  draw();
}

function ago() {
  const seconds = Math.round((Date.now() - since) / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

async function update() {
  try {
    const answer = await fetch(`/state${location.search}`, { headers: { "If-None-Match": known } });
    if (answer.status === 200) {
      const state = await answer.json();
      if (known !== "") since = Date.now();
      known = answer.headers.get("ETag");
      show(state);
    } else if (answer.status !== 304) {
      throw new Error(answer.statusText);
    }
    live.textContent = `Live, last change ${ago()} ago`;
    live.classList.remove("lost");
  } catch {
    live.textContent = `No connection to dynamite watch, last change ${ago()} ago`;
    live.classList.add("lost");
  }
  setTimeout(update, 1000 * SECONDS_BETWEEN_REQUESTS);
}

update();
