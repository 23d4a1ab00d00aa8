// Two charts over one time axis, latency above throughput, with one crosshair. <time-range> says
// which window; the history comes from data-url; while the window is live, `live:operate` frames
// add points, `live:gap` and a change of theme draw anew. Drag to zoom in, turn the wheel sideways
// to pan, double-click to be live again; `chart:cursor` tells the lanes where the crosshair is.
import { labelLines, numbers, palette } from "./chart-parts.js";

const SERIES = ["received_per_s", "verdicts_per_s", "p50_ms", "p95_ms", "p99_ms"];
const FRAME_STEP_S = 5; // what frames bring
const MS_BETWEEN_LOADS = 10_000; // of a live window whose points are longer
const DAY_S = 86_400;
const HEIGHT = { latency: 226, throughput: 186 };
const AXIS_PX = 26;
const RIGHT_PX = 108; // room for the labels at the lines

class LiveChart extends HTMLElement {
  #columns = null;
  #charts = [];
  #loads = 0;
  #loadedAt = 0;
  #resize = new ResizeObserver(() => this.#fit());

  connectedCallback() {
    document.body.addEventListener("live:operate", this.#frame);
    document.body.addEventListener("live:gap", this.#load);
    document.body.addEventListener("range:changed", this.#load);
    this.addEventListener("wheel", this.#turn, { passive: false });
    this.addEventListener("dblclick", this.#goLive);
    document.addEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.#draw);
    this.#load();
  }

  disconnectedCallback() {
    document.body.removeEventListener("live:operate", this.#frame);
    document.body.removeEventListener("live:gap", this.#load);
    document.body.removeEventListener("range:changed", this.#load);
    document.removeEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.#draw);
    this.#resize.disconnect();
    this.#charts.forEach(({ plot }) => plot.destroy());
  }

  get #range() {
    return document.querySelector("time-range").range;
  }

  #load = async () => {
    const load = (this.#loads += 1);
    const { fromS, toS, isLive } = this.#range;
    const query = new URLSearchParams(isLive ? { from: fromS } : { from: fromS, to: toS });
    this.#loadedAt = Date.now();
    let response;
    try {
      response = await fetch(`${this.dataset.url}?${query}`, { headers: { Accept: "application/json" } });
    } catch {
      return this.#fail(load);
    }
    if (!response.ok || response.redirected) return this.#fail(load);
    const columns = await response.json();
    if (load !== this.#loads) return; // another window was asked for meanwhile
    this.#columns = columns;
    delete this.dataset.failed;
    this.dataset.stepS = columns.step_s;
    this.#note(columns.step_s);
    this.#draw();
  };

  // What is drawn is no longer what the range says: never leave it standing without a word.
  #fail(load) {
    if (load !== this.#loads) return;
    this.dataset.failed = "";
    if (this.#charts.length) this.#noteElement.textContent = this.dataset.wordFailed;
    else this.#say(this.dataset.wordFailed);
  }

  get #noteElement() {
    return document.getElementById(this.dataset.note);
  }

  #note(stepS) {
    const { fromS, toS, spanS, isLive } = this.#range;
    const step = this.dataset[`wordStep${stepS}`];
    const end = isLive ? this.dataset.wordNow : timeOf(toS, spanS);
    this.#noteElement.textContent = this.dataset.wordWindow
      .replace("{from}", timeOf(fromS, spanS)).replace("{to}", end).replace("{step}", step);
  }

  #turn = (event) => {
    const turned = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (Math.abs(turned) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
    event.preventDefault();
    ask("range:pan", { share: Math.sign(turned) * 0.1 });
  };

  #goLive = () => ask("range:live");

  #frame = ({ detail: { content } }) => {
    if (!content || !this.#range.isLive) return;
    if (!this.#columns || "failed" in this.dataset) return this.#load();
    if (this.#columns.step_s !== FRAME_STEP_S) {
      if (Date.now() - this.#loadedAt > MS_BETWEEN_LOADS) this.#load();
      return;
    }
    for (const point of content) this.#put(point);
    this.#note(FRAME_STEP_S);
    this.#update();
  };

  #put(point) {
    const times = this.#columns.at_s;
    const at = times.lastIndexOf(point.at_s);
    const index = at >= 0 ? at : times.length;
    if (at < 0 && times.length && point.at_s < times.at(-1)) return; // older than what is shown
    times[index] = point.at_s;
    for (const name of SERIES) this.#columns[name][index] = point[name];
    while (times[0] < this.#range.fromS) for (const name of ["at_s", ...SERIES]) this.#columns[name].shift();
  }

  get #isEmpty() {
    return SERIES.every((name) => this.#columns[name].every((value) => value === null));
  }

  #say(words) {
    const line = document.createElement("p");
    line.className = "chart-wait muted";
    line.setAttribute("role", "status");
    line.textContent = words;
    this.replaceChildren(line);
  }

  #draw = () => {
    if (!this.#columns) return;
    this.#charts.forEach(({ plot }) => plot.destroy());
    this.#charts = [];
    if (this.#isEmpty) return this.#say(this.dataset.wordEmpty);
    this.replaceChildren();
    this.#chart("latency", ["p50_ms", "p95_ms", "p99_ms"]);
    this.#chart("throughput", ["received_per_s", "verdicts_per_s"]);
    this.#resize.observe(this);
  };

  #update() {
    if (!this.#charts.length) return this.#draw();
    if (this.#isEmpty) return this.#draw();
    for (const { plot, names } of this.#charts) plot.setData(this.#data(names));
  }

  #data(names) {
    return [this.#columns.at_s, ...names.map((name) => this.#columns[name])];
  }

  #fit() {
    for (const { plot, kind } of this.#charts) plot.setSize({ width: this.clientWidth, height: HEIGHT[kind] });
  }

  #chart(kind, names) {
    const figure = document.createElement("figure");
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", this.dataset[`label${kind[0].toUpperCase()}${kind.slice(1)}`]);
    const caption = document.createElement("figcaption");
    caption.textContent = this.dataset[kind === "latency" ? "wordLatency" : "wordThroughput"];
    figure.append(caption);
    this.append(figure);
    const plot = new uPlot(this.#options(kind, names), this.#data(names), figure);
    plot.over.addEventListener("click", () => this.#pick(plot));
    this.#charts.push({ plot, kind, names });
  }

  // uPlot keeps the click that ends a drag to itself.
  #pick(plot) {
    const { idx } = plot.cursor;
    if (idx === null || idx === undefined) return;
    const fromS = plot.data[0][idx];
    ask("chart:pick", { fromS, toS: fromS + this.#columns.step_s });
  }

  #options(kind, names) {
    const colour = palette(this);
    const axis = { stroke: colour("--text-3"), grid: { stroke: colour("--chart-grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const lines = {
      p50_ms: { label: "p50", unit: "ms", stroke: colour("--rank-1") },
      p95_ms: { label: "p95", unit: "ms", stroke: colour("--rank-2") },
      p99_ms: { label: "p99", unit: "ms", stroke: colour("--rank-3") },
      received_per_s: { label: this.dataset.wordIn, unit: "/s", stroke: colour("--series-4"), dash: [4, 3] },
      verdicts_per_s: { label: this.dataset.wordOut, unit: "/s", stroke: colour("--series-1"), fill: colour("--chart-fill") },
    };
    return {
      width: this.clientWidth,
      height: HEIGHT[kind],
      padding: [8, RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: "operate", filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
        drag: { x: true, y: false, setScale: false, dist: 8 },
        points: { size: 7 },
        y: false,
      },
      scales: { x: { range: () => [this.#range.fromS, this.#range.toS] }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.1] } },
      axes: [
        { ...axis, space: this.#range.spanS > DAY_S ? 80 : 60, size: AXIS_PX, values: (_plot, ticks) => ticks.map((tick) => timeOf(tick, this.#range.spanS)) },
        { ...axis, size: 48, space: 36, values: (_plot, ticks) => ticks.map((tick) => numbers.format(tick)) },
      ],
      series: [{}, ...names.map((name) => ({ width: 1.5, points: { show: false }, spanGaps: false, ...lines[name] }))],
      hooks: {
        draw: [(plot) => labelLines(plot, colour)],
        setCursor: [(plot) => { plot.redraw(false); tellCursor(plot); }],
        setSelect: [zoomToSelection],
      },
    };
  }
}

// Times are shown in UTC, like every time in the console; as much of them as the span needs.
function timeOf(second, spanS) {
  const iso = new Date(second * 1000).toISOString();
  if (spanS > DAY_S) return `${iso.slice(5, 10)}\u00a0${iso.slice(11, 16)}`;
  return iso.slice(11, spanS > DAY_S / 12 ? 16 : 19);
}

function ask(type, detail) {
  document.body.dispatchEvent(new CustomEvent(type, { detail }));
}

function zoomToSelection(plot) {
  const { left, width } = plot.select;
  if (!width) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  ask("range:zoom", { fromS: plot.posToVal(left, "x"), toS: plot.posToVal(left + width, "x") });
}

function tellCursor(plot) {
  const { left } = plot.cursor;
  ask("chart:cursor", { share: left >= 0 ? left / plot.over.clientWidth : null });
}

customElements.define("live-chart", LiveChart);
