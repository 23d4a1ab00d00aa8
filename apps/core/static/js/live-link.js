// Owns the page's one WebSocket and says how fresh the page is.
//
// Each frame is dispatched on the body as `live:<topic>` with {events, content} as detail, so
// `hx-trigger="live:review from:body"` refetches a fragment. Frames of a topic are numbered: when
// a number is missing, or the server's epoch changed, `live:gap` says that anything may have been
// missed, and whoever shows state refetches it. So it does when the page itself is older than the
// last news. (See apps/core/realtime.py.)
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 15_000;
const CLOSE_FORBIDDEN = 4403;
const SHAPE = { live: "healthy", connecting: "busy", reconnecting: "busy", stale: "degraded", ended: "idle" };

class LiveLink extends HTMLElement {
  #socket = null;
  #seen = new Map(); // topic -> {epoch, seq} of its last frame
  #tries = 0;
  #lastNewsAt = null;
  #retryTimer = 0;
  #clock = 0;
  #ended = false;

  connectedCallback() {
    this.#clock = setInterval(() => this.#showAge(), 1000);
    addEventListener("online", this.#now);
    addEventListener("pagehide", this.#leave);
    addEventListener("pageshow", this.#return);
    this.#connect();
  }

  disconnectedCallback() {
    clearInterval(this.#clock);
    removeEventListener("online", this.#now);
    removeEventListener("pagehide", this.#leave);
    removeEventListener("pageshow", this.#return);
    this.#leave();
  }

  // Sends one JSON message, for elements that talk back; false when the line is down.
  send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  #connect() {
    clearTimeout(this.#retryTimer);
    this.#say(this.#tries ? "reconnecting" : "connecting");
    const url = new URL(this.dataset.url, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => socket === this.#socket && this.#closed(code);
  }

  #opened() {
    this.#tries = 0;
    this.#fresh();
  }

  #receive({ topic, epoch, seq, events, content, quiet_s: quietS }) {
    const seen = this.#seen.get(topic);
    this.#seen.set(topic, { epoch, seq });
    this.#fresh();
    // The first frame after a connect has no events and repeats the last number.
    const expected = seen && seen.seq + (events.length ? 1 : 0);
    const isOlder = !seen && quietS * 1000 < performance.now(); // the page, than the news
    if (isOlder || (seen && (epoch !== seen.epoch || seq !== expected))) this.#tell("gap", { topic });
    if (events.length) this.#tell(topic, { events, content });
  }

  #fresh() {
    this.#lastNewsAt = performance.now();
    this.#say("live");
    this.#showAge();
  }

  #closed(code) {
    this.#socket = null;
    this.#ended = code === CLOSE_FORBIDDEN;
    if (this.#ended) return this.#say("ended");
    // Full jitter: after a restart of the server its viewers must not come back all at once.
    const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#tries);
    this.#tries += 1;
    this.#say("reconnecting");
    this.#retryTimer = setTimeout(() => this.#connect(), Math.random() * most);
  }

  #now = () => {
    if (!this.#socket && !this.#ended) this.#connect();
  };

  #leave = () => {
    clearTimeout(this.#retryTimer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  };

  #return = ({ persisted }) => {
    if (persisted) this.#connect();
  };

  #tell(topic, detail = null) {
    document.body.dispatchEvent(new CustomEvent(`live:${topic}`, { detail }));
  }

  #showAge() {
    if (this.#lastNewsAt === null) return;
    const age = performance.now() - this.#lastNewsAt;
    // Only where something is sent all the time does silence mean that it is missing.
    const staleAfterS = Number(this.dataset.staleAfter);
    if (this.dataset.link === "live" && staleAfterS && age > staleAfterS * 1000) this.#say("stale");
    const seconds = Math.floor(age / 1000);
    const text = seconds < 60 ? `${seconds}\u00a0s` : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    this.querySelector("[data-age]").textContent = text;
  }

  #say(state) {
    if (this.dataset.link === state) return;
    const before = this.dataset.link;
    this.dataset.link = state;
    const words = this.dataset[`word${state[0].toUpperCase()}${state.slice(1)}`];
    const mark = this.querySelector(".state");
    mark.dataset.state = SHAPE[state];
    mark.querySelector("b").textContent = words;
    document.documentElement.dataset.live = state;
    // The first connection is no news to a screen reader; a change is.
    if (before && before !== "connecting") this.parentElement.querySelector("[data-live-announce]").textContent = words;
  }
}

customElements.define("live-link", LiveLink);
