// Which window of time the charts and lanes show. It owns the window; they read `range`, follow
// `range:changed`, and ask for another with `range:zoom` ({fromS, toS}) and `range:pan` ({share}).
// Time is the server's: data-now-s says what it was when the page was made.
const SHORTEST_S = 300;
const LONGEST_S = 31 * 86_400;
const GRID_S = 5;

class TimeRange extends HTMLElement {
  #clockAheadS = Number(this.dataset.nowS) - Date.now() / 1000;
  #spanS = Number(this.dataset.spanS);
  #endS = null; // null: the end is now, and moves

  connectedCallback() {
    document.body.addEventListener("range:zoom", this.#zoom);
    document.body.addEventListener("range:pan", this.#pan);
    document.body.addEventListener("range:live", this.#goLive);
    this.addEventListener("click", this.#press);
    this.#show();
  }

  disconnectedCallback() {
    document.body.removeEventListener("range:zoom", this.#zoom);
    document.body.removeEventListener("range:pan", this.#pan);
    document.body.removeEventListener("range:live", this.#goLive);
  }

  get range() {
    const toS = this.#endS ?? this.#nowS;
    return { fromS: toS - this.#spanS, toS, spanS: this.#spanS, isLive: this.#endS === null };
  }

  get #nowS() {
    return Math.floor((Date.now() / 1000 + this.#clockAheadS) / GRID_S) * GRID_S;
  }

  #press = (event) => {
    const { target } = event;
    if (target.closest("[data-slowest]")) {
      event.preventDefault();
      return document.body.dispatchEvent(new CustomEvent("chart:pick", { detail: this.range }));
    }
    const button = target.closest("button");
    if (!button) return;
    if (button.dataset.spanS) this.#set(Number(button.dataset.spanS), this.#endS);
    else if (button.dataset.pan) this.#move(Number(button.dataset.pan));
    else this.#goLive();
  };

  #zoom = ({ detail: { fromS, toS } }) => {
    const spanS = Math.max(SHORTEST_S, Math.round(toS - fromS));
    // Not narrower than the shortest window, around the middle of what was asked for.
    this.#set(spanS, Math.round((fromS + toS) / 2 + spanS / 2));
  };

  #pan = ({ detail: { share } }) => this.#move(share);

  #goLive = () => this.#set(this.#spanS, null);

  #move(share) {
    this.#set(this.#spanS, Math.round(this.range.toS + share * this.#spanS));
  }

  #set(spanS, endS) {
    const before = this.range;
    this.#spanS = Math.min(spanS, LONGEST_S);
    this.#endS = endS === null || endS >= this.#nowS ? null : endS;
    this.#show();
    const { fromS, toS, isLive } = this.range;
    if (fromS !== before.fromS || toS !== before.toS || isLive !== before.isLive) {
      document.body.dispatchEvent(new CustomEvent("range:changed", { detail: this.range }));
    }
  }

  #show() {
    const { isLive } = this.range;
    for (const button of this.querySelectorAll("[data-span-s]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.spanS) === this.#spanS));
    }
    // Not `disabled`: that would take the focus from whoever just pressed it.
    for (const button of this.querySelectorAll('[data-pan="0.5"]')) {
      button.setAttribute("aria-disabled", String(isLive));
    }
    this.querySelector("[data-live]").setAttribute("aria-pressed", String(isLive));
  }
}

customElements.define("time-range", TimeRange);
