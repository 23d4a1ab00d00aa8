// The figures of the operator's page: a frame a second brings them, rendered once for all who watch in
// one language. Fetches them itself after a gap, and when no frame came for five seconds: this page
// must not depend on the machinery that it shows.
const MS_WITHOUT_NEWS = 5_000;

class LiveFigures extends HTMLElement {
  #newsAt = performance.now();
  #clock = 0;

  connectedCallback() {
    document.body.addEventListener(`live:${this.dataset.topic}`, this.#frame);
    document.body.addEventListener("live:gap", this.#fetch);
    this.#clock = setInterval(() => performance.now() - this.#newsAt > MS_WITHOUT_NEWS && this.#fetch(), 1000);
  }

  disconnectedCallback() {
    document.body.removeEventListener(`live:${this.dataset.topic}`, this.#frame);
    document.body.removeEventListener("live:gap", this.#fetch);
    clearInterval(this.#clock);
  }

  #frame = ({ detail: { content } }) => {
    if (!content) return;
    this.#newsAt = performance.now();
    htmx.swap(this, content.html, { swapStyle: "none" });
  };

  #fetch = () => {
    this.#newsAt = performance.now();
    htmx.ajax("GET", this.dataset.url, { source: this, target: this, swap: "none" });
  };
}

customElements.define("live-figures", LiveFigures);
