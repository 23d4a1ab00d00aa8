// Two charts over one time axis, latency above throughput, with one crosshair. The history comes
// from data-url; `live:operate` frames add points, `live:gap` and a change of theme draw anew.
const SERIES = ["received_per_s", "verdicts_per_s", "p50_ms", "p95_ms", "p99_ms"];
const POINTS_KEPT = 120;
const HEIGHT = { latency: 226, throughput: 186 };
const AXIS_PX = 26;
const RIGHT_PX = 108; // room for the labels at the lines

class LiveChart extends HTMLElement {
  #columns = null;
  #charts = [];
  #resize = new ResizeObserver(() => this.#fit());

  connectedCallback() {
    document.body.addEventListener("live:operate", this.#frame);
    document.body.addEventListener("live:gap", this.#load);
    document.addEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.#draw);
    this.#load();
  }

  disconnectedCallback() {
    document.body.removeEventListener("live:operate", this.#frame);
    document.body.removeEventListener("live:gap", this.#load);
    document.removeEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.#draw);
    this.#resize.disconnect();
    this.#charts.forEach(({ plot }) => plot.destroy());
  }

  #load = async () => {
    let response;
    try {
      response = await fetch(this.dataset.url, { headers: { Accept: "application/json" } });
    } catch {
      return this.#say(this.dataset.wordFailed);
    }
    if (!response.ok || response.redirected) return this.#say(this.dataset.wordFailed);
    this.#columns = await response.json();
    this.#draw();
  };

  #frame = ({ detail: { content } }) => {
    if (!content) return;
    if (!this.#columns) return this.#load();
    for (const point of content) this.#put(point);
    this.#update();
  };

  #put(point) {
    const times = this.#columns.at_s;
    const at = times.lastIndexOf(point.at_s);
    const index = at >= 0 ? at : times.length;
    if (at < 0 && times.length && point.at_s < times.at(-1)) return; // older than what is shown
    times[index] = point.at_s;
    for (const name of SERIES) this.#columns[name][index] = point[name];
    if (times.length > POINTS_KEPT) for (const name of ["at_s", ...SERIES]) this.#columns[name].shift();
  }

  get #isEmpty() {
    return SERIES.every((name) => this.#columns[name].every((value) => value === null));
  }

  #say(words) {
    if (this.#charts.length) return;
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
    this.#charts.push({ plot, kind, names });
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
      cursor: { sync: { key: "operate" }, drag: { setScale: false }, points: { size: 7 }, y: false },
      scales: { y: { range: (_plot, _low, high) => [0, (high || 1) * 1.1] } },
      axes: [
        { ...axis, space: 60, size: AXIS_PX, values: (_plot, ticks) => ticks.map(timeOfDay) },
        { ...axis, size: 48, space: 36, values: (_plot, ticks) => ticks.map((tick) => numbers.format(tick)) },
      ],
      series: [{}, ...names.map((name) => ({ width: 1.5, points: { show: false }, spanGaps: false, ...lines[name] }))],
      hooks: { draw: [(plot) => labelLines(plot, colour)], setCursor: [(plot) => plot.redraw(false)] },
    };
  }
}

const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });

function short(value) {
  return numbers.format(value < 99.95 ? value : Math.round(value));
}

// Times are shown in UTC, like every time in the console.
function timeOfDay(second) {
  return new Date(second * 1000).toISOString().slice(11, 19);
}

// A canvas takes no light-dark() and no var(): ask a probe element for the colour it computes.
function palette(element) {
  const probe = document.createElement("i");
  probe.hidden = true;
  element.append(probe);
  const known = new Map();
  for (const name of ["--text-1", "--text-2", "--text-3", "--chart-grid", "--rank-1", "--rank-2", "--rank-3", "--series-1", "--series-4", "--chart-fill", "--surface-1"]) {
    probe.style.color = `var(${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => known.get(name);
}

// Each line's name and value beside its end, or the values under the crosshair; never overlapping.
function labelLines(plot, colour) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const last = plot.data[0].length - 1;
  const at = plot.cursor.idx ?? last;
  const labels = [];
  plot.series.forEach((series, index) => {
    if (!index) return;
    const values = plot.data[index];
    let shown = at;
    while (at === last && shown > 0 && values[shown] == null) shown -= 1;
    if (values[shown] == null) return;
    labels.push({ y: plot.valToPos(values[shown], "y", true), name: series.label, value: `${short(values[shown])}\u00a0${series.unit}`, colour: series.stroke() });
  });
  spread(labels, 14 * ratio, bbox.top + bbox.height);
  ctx.save();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const x = bbox.left + bbox.width + 8 * ratio;
  for (const label of labels) {
    ctx.fillStyle = label.colour;
    ctx.fillRect(x, label.y - ratio, 8 * ratio, 2 * ratio);
    ctx.font = `600 ${11 * ratio}px system-ui`;
    ctx.fillStyle = colour("--text-1");
    ctx.fillText(label.name, x + 12 * ratio, label.y);
    const width = ctx.measureText(label.name).width;
    ctx.font = `${11 * ratio}px system-ui`;
    ctx.fillStyle = colour("--text-2");
    ctx.fillText(label.value, x + 16 * ratio + width, label.y);
  }
  ctx.restore();
}

function spread(labels, gap, bottom) {
  labels.sort((a, b) => b.y - a.y);
  let limit = bottom;
  for (const label of labels) {
    label.y = Math.min(label.y, limit);
    limit = label.y - gap;
  }
}

customElements.define("live-chart", LiveChart);
