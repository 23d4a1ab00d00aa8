// The live verdict feed. `live:verdicts` frames bring a sample of the new verdicts as data; the
// text in it was cut into pieces by the server and goes into the page as text only. Who may not read
// messages gets none, and sees the message's number in its place.
// Space pauses: rows stay as they are, and the feed says how many came since; a full stop then brings
// the next frame of those that were held back. What is erased loses its text in both at once.
const ROWS_KEPT = 40;
const FRAMES_HELD = 240; // a minute
const REFETCH_LEAST_MS = 1000;
const ERASED_KEPT = 1000;
const RATE_WINDOW_MS = 4000;
const TYPES = "input, textarea, select, button, summary, a, [contenteditable]";

class VerdictFeed extends HTMLElement {
  #isPaused = false;
  #heldBack = 0;
  #held = []; // frames that came while paused, oldest first
  #counts = []; // [time, verdicts, rows that fit, rows sampled] of the last seconds

  connectedCallback() {
    document.body.addEventListener("live:verdicts", this.#frame);
    this.addEventListener("htmx:afterSwap", this.#wipe); // rows that were read just before
    document.addEventListener("keydown", this.#key);
    this.querySelector("[data-pause]").addEventListener("click", this.#toggle);
    this.querySelector("[data-step]").addEventListener("click", this.#step);
    this.#tick = setInterval(() => this.#sayRate(), 1000);
  }

  disconnectedCallback() {
    document.body.removeEventListener("live:verdicts", this.#frame);
    document.removeEventListener("keydown", this.#key);
    clearInterval(this.#tick);
    clearTimeout(this.#refetch);
  }

  #tick = 0;
  #erased = new Set(); // ids of messages, the last ones
  #refetch = 0;
  #refetchedAt = -Infinity;

  #key = (event) => {
    const act = { " ": this.#toggle, ".": this.#step }[event.key];
    if (!act || event.target.closest?.(TYPES) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    act();
  };

  #step = () => {
    const frame = this.#held.shift();
    if (!frame) return;
    this.#heldBack = Math.max(0, this.#heldBack - frame.count);
    this.#add(frame.rows.filter((row) => this.#fits(row)));
    this.#sayRate();
  };

  #toggle = () => {
    this.#isPaused = !this.#isPaused;
    this.#heldBack = 0;
    this.#held = [];
    this.querySelector("[data-step]").hidden = !this.#isPaused;
    const button = this.querySelector("[data-pause]");
    button.setAttribute("aria-pressed", String(this.#isPaused));
    button.querySelector("span").textContent = this.#isPaused ? this.dataset.wordResume : this.dataset.wordPause;
    this.#sayRate();
  };

  #frame = ({ detail: { content, events } }) => {
    for (const { kind, ids, count } of events) {
      if (kind === "erased") this.#forget(ids, count);
    }
    if (!content?.count) return;
    const rows = content.rows.filter((row) => this.#fits(row));
    this.#counts.push([performance.now(), content.count, rows.length, content.rows.length]);
    if (this.#isPaused) {
      this.#heldBack += content.count;
      this.#held = [...this.#held, content].slice(-FRAMES_HELD);
      return;
    }
    this.#add(rows);
  };

  #forget(ids, count) {
    // Too many to be told one by one: which they are, only the server knows.
    if (count > ids.length) return this.#readAnew();
    this.#erased = new Set([...this.#erased, ...ids.map(String)].slice(-ERASED_KEPT));
    this.#wipe();
  }

  #wipe = () => {
    for (const row of this.querySelectorAll("[data-rows] tr")) {
      if (this.#erased.has(row.dataset.id)) row.querySelector(".text-cell").replaceWith(this.#message(row.dataset.id, null, true));
    }
    for (const row of this.#held.flatMap(({ rows }) => rows)) {
      if (this.#erased.has(row.id)) Object.assign(row, { text: null, deleted: true });
    }
  };

  // All rows, at once and again after the last news of this kind; held frames can't be read anew.
  #readAnew() {
    this.#held = [];
    if (this.#refetch) return;
    const read = () => {
      this.#refetch = 0;
      this.#refetchedAt = performance.now();
      this.querySelector("form").dispatchEvent(new Event("change"));
    };
    const wait = this.#refetchedAt + REFETCH_LEAST_MS - performance.now();
    if (wait > 0) this.#refetch = setTimeout(read, wait);
    else read();
  }

  get #wanted() {
    return Object.fromEntries(new FormData(this.querySelector("form")));
  }

  #fits({ label, action, source, groupKey }) {
    const found = { label: label || "none", action, source, group: groupKey };
    return Object.entries(this.#wanted).every(([name, value]) => !value.trim() || value.trim() === found[name]);
  }

  #add(rows) {
    const body = this.querySelector("[data-rows]");
    const known = new Set(Array.from(body.rows, (row) => row.dataset.id));
    const fresh = rows.filter(({ id }) => !known.has(id)).slice(0, ROWS_KEPT);
    body.prepend(...fresh.map((row) => this.#row(row)));
    while (body.rows.length > ROWS_KEPT) body.lastElementChild.remove();
    this.querySelector("[data-empty]").hidden = body.rows.length > 0;
  }

  #row({ id, at, label, score, action, source, text, group, ms, deleted, review }) {
    const row = document.createElement("tr");
    row.dataset.id = id;
    const chip = document.createElement("span");
    chip.className = "chip";
    if (label) chip.dataset.label = label;
    chip.textContent = label ? this.#word(label) : this.dataset.wordUndetermined;
    row.append(
      cell("mono faint", at),
      cell("", chip),
      cell("num", score === null ? "" : score.toFixed(2).replace(/^0/, "")),
      cell("muted", this.#word(action)),
      this.#message(id, text, deleted),
      cell("muted group-cell", foreign(group)),
      cell("small faint", this.#word(source)),
      cell("num", milliseconds(ms)),
      cell("", review && this.dataset.reviewUrl ? this.#link(id) : ""),
    );
    return row;
  }

  #message(id, text, isDeleted) {
    if (isDeleted) return cell("text-cell faint", this.dataset.wordDeleted);
    return text ? cell("text-cell", foreign(text)) : cell("text-cell mono faint", id);
  }

  #link(id) {
    const link = document.createElement("a");
    link.href = this.dataset.reviewUrl.replace("/0/", `/${id}/`);
    link.textContent = this.dataset.wordReview;
    return link;
  }

  #word(value) {
    return this.dataset[`word${value[0].toUpperCase()}${value.slice(1)}`] ?? value;
  }

  #sayRate() {
    const since = performance.now() - RATE_WINDOW_MS;
    this.#counts = this.#counts.filter(([at]) => at > since);
    const line = this.querySelector("[data-rate]");
    if (this.#isPaused) {
      line.textContent = `${this.dataset.wordPaused}: ${this.dataset.wordHeldBack.replace("{count}", numbers.format(this.#heldBack))}`;
      return;
    }
    const perSecond = (index) => this.#counts.reduce((sum, entry) => sum + entry[index], 0) / (RATE_WINDOW_MS / 1000);
    // With a filter the sample is filtered, not everything: the feed must not look like a search.
    const isFiltered = Object.values(this.#wanted).some((value) => value.trim());
    const words = isFiltered ? this.dataset.wordFitting : this.dataset.wordShowing;
    line.textContent = this.#counts.length
      ? words.replace("{shown}", rate(perSecond(2))).replace("{sampled}", rate(perSecond(3))).replace("{all}", rate(perSecond(1)))
      : "";
  }
}

const numbers = new Intl.NumberFormat(document.documentElement.lang);
const tenths = new Intl.NumberFormat(document.documentElement.lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

function rate(value) {
  return value > 0 && value < 9.95 ? tenths.format(value) : numbers.format(Math.round(value));
}

function milliseconds(value) {
  return value < 99.95 ? tenths.format(value) : numbers.format(Math.round(value));
}

function cell(className, content) {
  const made = document.createElement("td");
  if (className) made.className = className;
  made.append(content);
  return made;
}

function foreign(pieces) {
  const box = document.createElement("bdi");
  box.className = "text";
  box.dataset.lines = "1";
  for (const [text, kind, title] of pieces) {
    if (!kind) {
      box.append(text);
      continue;
    }
    const named = document.createElement("span");
    named.className = "cp";
    if (kind !== "look") named.dataset.kind = kind;
    named.title = title;
    named.textContent = text;
    box.append(named);
  }
  return box;
}

customElements.define("verdict-feed", VerdictFeed);
