// The figures of review, drawn: decisions, waiting, the queue's age against its target, and what was
// overturned, a figure each over one span of days. The tables beneath have the same numbers.
import { labelLines, numbers, palette } from "./chart-parts.js";

const HEIGHT_PX = 176;
const RIGHT_PX = 132; // room for the labels at the lines
const MINUTE_S = 60;
const DAY_S = 86_400;

class ReviewCharts extends HTMLElement {
  #figures = null;
  #plots = [];
  #resize = new ResizeObserver(() => this.#fit());

  async connectedCallback() {
    document.addEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.#draw);
    const response = await fetch(this.dataset.url, { headers: { Accept: "application/json" } });
    if (!response.ok || response.redirected) return this.#say(this.dataset.wordFailed);
    this.#figures = await response.json();
    this.#draw();
    this.#resize.observe(this);
  }

  disconnectedCallback() {
    document.removeEventListener("theme:changed", this.#draw);
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.#draw);
    this.#resize.disconnect();
    this.#plots.forEach(({ plot }) => plot.destroy());
  }

  #say(words) {
    const line = document.createElement("p");
    line.className = "panel-body muted";
    line.setAttribute("role", "status");
    line.textContent = words;
    this.replaceChildren(line);
  }

  #draw = () => {
    if (!this.#figures) return;
    const { days, queue, target_s: targetS } = this.#figures;
    if (!days.length && !queue.length) return this.#say(this.dataset.wordEmpty);
    this.#plots.forEach(({ plot }) => plot.destroy());
    this.#plots = [];
    this.replaceChildren();
    const colour = palette(this);
    const byDay = days.toReversed();
    const at = byDay.map(({ day }) => Date.parse(`${day}T12:00:00Z`) / 1000);
    const column = (name, factor = 1) => byDay.map((day) => (day[name] === null ? null : day[name] * factor));
    const line = (label, stroke, more = {}) => ({ label, stroke: colour(stroke), say: duration, ...more });
    const word = (name) => this.dataset[`word${name}`];
    this.#chart("Decided", at, [
      [column("decisions"), line(word("Decisions"), "--series-1", { say: numbers.format, points: true, fill: colour("--chart-fill") })],
    ], colour, numbers.format);
    this.#chart("Waiting", at, [
      [column("to_review_p50_s"), line(word("ReviewP50"), "--series-4", { points: true, dash: [4, 3] })],
      [column("to_review_p95_s"), line(word("ReviewP95"), "--series-4", { points: true })],
      [column("to_decision_p50_s"), line(word("DecisionP50"), "--rank-2", { points: true, dash: [4, 3] })],
      [column("to_decision_p95_s"), line(word("DecisionP95"), "--rank-3", { points: true })],
    ], colour, duration);
    const hours = queue.map(({ hour }) => Date.parse(hour) / 1000);
    this.#chart("Age", hours, [
      [queue.map(({ oldest_age_s }) => oldest_age_s), line(word("Oldest"), "--rank-3")],
      [queue.map(() => targetS), line(word("Target"), "--down-ink", { dash: [5, 4] })],
    ], colour, duration);
    this.#chart("Overturned", at, [
      [column("overturn_share", 100), line(word("Share"), "--rank-3", { points: true, say: percent })],
    ], colour, percent);
  };

  #fit() {
    for (const { plot } of this.#plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: HEIGHT_PX });
  }

  #chart(name, at, lines, colour, say) {
    if (!at.length) return; // nothing has happened yet
    const figure = document.createElement("figure");
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", this.dataset[`label${name}`]);
    const caption = document.createElement("figcaption");
    caption.textContent = this.dataset[`label${name}`];
    figure.append(caption);
    this.append(figure);
    const axis = { stroke: colour("--text-3"), grid: { stroke: colour("--chart-grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options = {
      width: figure.clientWidth,
      height: HEIGHT_PX,
      padding: [8, RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, sync: { key: "review" } },
      scales: { x: { range: span }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.15] } },
      axes: [
        { ...axis, size: 26, space: 56, incrs: [1, 2, 4, 7].map((days) => days * DAY_S), values: (_plot, ticks) => ticks.map(dayOf) },
        { ...axis, size: 56, space: 36, values: (_plot, ticks) => ticks.map((tick) => say(tick)) },
      ],
      series: [{}, ...lines.map(([, { points = false, ...series }]) => ({ width: 1.5, points: { show: points || at.length === 1, size: 5 }, ...series }))],
      hooks: { draw: [(plot) => labelLines(plot, colour)], setCursor: [(plot) => plot.redraw(false)] },
    };
    this.#plots.push({ plot: new uPlot(options, [at, ...lines.map(([values]) => values)], figure) });
  }
}

// A single day stands in the middle of its own span. (uPlot would make a thousand days of it.)
function span({ data: [at] }) {
  const [low, high] = [at[0], at.at(-1)];
  return low === high ? [low - DAY_S / 2, high + DAY_S / 2] : [low, high];
}

function dayOf(second) {
  return new Date(second * 1000).toISOString().slice(5, 10);
}

// 48 s, 1:42, 3:05 h, as the tables write them.
function duration(seconds) {
  if (seconds < MINUTE_S) return `${numbers.format(seconds)}\u00a0s`;
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / MINUTE_S), whole % MINUTE_S];
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

function percent(value) {
  return `${numbers.format(value)}%`;
}

customElements.define("review-charts", ReviewCharts);
