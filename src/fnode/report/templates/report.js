
"use strict";
const DARK = matchMedia("screen and (prefers-color-scheme: dark)"), PAPER = matchMedia("print");
const PAPER_WIDTH = 680; // pixels that fit on A4 and on letter paper

// The colours of figures are those of the page around them.
function look() {
  const style = getComputedStyle(document.documentElement);
  const [ink, paper, line, quiet, accent] = ["ink", "paper", "line", "quiet", "accent"].map(name => style.getPropertyValue("--" + name).trim());
  const axis = { automargin: true, exponentformat: "power", gridcolor: line, zerolinecolor: line, linecolor: line, title: { standoff: 8 } };
  const clear = "rgba(0,0,0,0)";
  return { layout: {
    font: { color: ink, family: "system-ui, sans-serif", size: 13 }, paper_bgcolor: clear, plot_bgcolor: clear, xaxis: axis, yaxis: axis,
    hoverlabel: { bgcolor: paper, bordercolor: quiet, font: { color: ink } }, modebar: { bgcolor: clear, color: quiet, activecolor: accent },
  } };
}

function fitted() {
  return PAPER.matches ? { template: look(), width: PAPER_WIDTH, autosize: false } : { template: look(), width: null, autosize: true };
}

// What the mouse does to all panels of a figure, by keys: zoom in and out, move, show all.
const MOVES = { "+": [0.25, 0.25, 0, 0], "=": [0.25, 0.25, 0, 0], "-": [-0.5, -0.5, 0, 0], ArrowLeft: [0, 0, -0.2, 0], ArrowRight: [0, 0, 0.2, 0], ArrowDown: [0, 0, 0, -0.2], ArrowUp: [0, 0, 0, 0.2] };

function steer(plot, event) {
  const change = {}, move = MOVES[event.key];
  if (event.target !== plot || event.ctrlKey || event.metaKey || event.altKey || !(move || event.key === "0")) return;
  for (const [name, axis] of Object.entries(plot._fullLayout)) {
    if (!/^[xy]axis\d*$/.test(name)) continue;
    const [low, high] = axis.range, size = high - low, way = name[0] === "x" ? 0 : 1;
    if (move) change[name + ".range"] = [low + size * (move[way] + move[way + 2]), high - size * (move[way] - move[way + 2])];
    else change[name + ".autorange"] = true;
  }
  event.preventDefault();
  Plotly.relayout(plot, change);
}

// A button and a slider that show the frames of a figure; its frames are called by their times.
function animate(figure, plot, frames, milliseconds) {
  const [button, slider, clock] = ["button", "input", "output"].map(name => figure.querySelector(".controls " + name));
  let timer = null;
  const show = number => {
    const time = `t = ${frames[number].name} s`;
    slider.value = number;
    slider.setAttribute("aria-valuetext", time);
    clock.textContent = time;
    // Without a redraw only the paths move, which keeps up with the clock.
    Plotly.animate(plot, [frames[number].name], { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: false } })
      .catch(() => {}); // a frame that a later one overtook
  };
  const pause = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  const step = () => Number(slider.value) < frames.length - 1 ? show(Number(slider.value) + 1) : pause();
  button.addEventListener("click", () => {
    if (timer) return pause();
    if (Number(slider.value) === frames.length - 1) show(0);
    button.textContent = "Pause";
    timer = setInterval(step, milliseconds);
  });
  slider.addEventListener("input", () => { pause(); show(Number(slider.value)); });
  show(0);
}

for (const figure of document.querySelectorAll("figure.picture")) {
  const plot = figure.querySelector(".plot");
  const { data, layout, frames } = JSON.parse(figure.querySelector("script").textContent);
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"] };
  Plotly.newPlot(plot, { data, frames, layout: { ...layout, ...fitted() }, config }).then(() => {
    for (const query of [DARK, PAPER]) query.addEventListener("change", () => Plotly.relayout(plot, fitted()));
    plot.addEventListener("keydown", event => steer(plot, event));
    if (frames && frames.length) animate(figure, plot, frames, layout.meta.milliseconds);
  });
}
