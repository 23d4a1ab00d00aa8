// Lanes of events on the charts' time axis, and the same events as a list. Follows <time-range>;
// what still holds is drawn to the end of the window, in the colour of its state and with its word.
const MS_BETWEEN_LOADS = 5_000;
const LATE = 0.85; // of the axis: from there on a point's words stand before it

class EventLanes extends HTMLElement {
  #events = [];
  #loads = 0;
  #loadedAt = 0;

  connectedCallback() {
    document.body.addEventListener("range:changed", this.#load);
    document.body.addEventListener("live:gap", this.#load);
    document.body.addEventListener("live:operate", this.#tick);
    document.body.addEventListener("chart:cursor", this.#cross);
    this.#load();
  }

  disconnectedCallback() {
    document.body.removeEventListener("range:changed", this.#load);
    document.body.removeEventListener("live:gap", this.#load);
    document.body.removeEventListener("live:operate", this.#tick);
    document.body.removeEventListener("chart:cursor", this.#cross);
  }

  get #range() {
    return document.querySelector("time-range").range;
  }

  #load = async () => {
    const load = (this.#loads += 1);
    const { fromS, toS, isLive } = this.#range;
    this.#loadedAt = Date.now();
    const query = new URLSearchParams(isLive ? { from: fromS } : { from: fromS, to: toS });
    let response = null;
    try {
      response = await fetch(`${this.dataset.url}?${query}`, { headers: { Accept: "application/json" } });
    } catch {
      // Said below, as for an answer that is none.
    }
    if (load !== this.#loads) return;
    const failed = !response || !response.ok || response.redirected;
    this.querySelector("[data-failed]").hidden = !failed;
    if (failed) return;
    this.#events = (await response.json()).events;
    this.#draw();
  };

  #tick = () => {
    if (!this.#range.isLive) return;
    if (Date.now() - this.#loadedAt > MS_BETWEEN_LOADS) this.#load();
    else this.#draw();
  };

  #cross = ({ detail: { share } }) => {
    const cross = this.querySelector("[data-cross]");
    cross.hidden = share === null;
    cross.style.setProperty("--at", share ?? 0);
  };

  #draw() {
    const range = this.#range;
    for (const track of this.querySelectorAll("[data-lane]")) {
      const events = this.#events.filter((event) => event.lane === track.dataset.lane);
      track.replaceChildren(...events.map((event) => mark(event, range)));
    }
    this.#list();
  }

  #list() {
    const shown = JSON.stringify(this.#events);
    const list = this.querySelector("[data-list]");
    if (list.shown === shown) return; // nobody's place in the list is taken away for nothing
    list.shown = shown;
    list.replaceChildren(...this.#events.toReversed().map(line));
    this.querySelector("[data-count]").textContent = this.#events.length;
    this.querySelector("[data-none]").hidden = this.#events.length > 0;
  }
}

function mark(event, { fromS, spanS }) {
  const element = document.createElement("span");
  const start = Math.max(0, (event.at_s - fromS) / spanS);
  element.className = event.look ? "event-span" : "event-point";
  if (event.look) element.dataset.state = event.look;
  else element.classList.toggle("is-late", start > LATE);
  element.style.setProperty("--at", start);
  element.style.setProperty("--to", event.until_s ? Math.min(1, (event.until_s - fromS) / spanS) : 1);
  element.textContent = event.words;
  element.title = describe(event);
  return element;
}

function line(event) {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.dateTime = new Date(event.at_s * 1000).toISOString();
  time.className = "mono faint";
  time.textContent = `${time.dateTime.slice(5, 10)} ${time.dateTime.slice(11, 19)}`;
  const words = document.createElement("bdi");
  words.textContent = describe(event);
  item.append(time, " ", words);
  return item;
}

function describe(event) {
  return event.reason ? `${event.words}: ${event.reason}` : event.words;
}

customElements.define("event-lanes", EventLanes);
