// What a spike was made of. A click on a chart, or the button beside the ranges, tells which moment
// (`chart:pick`, {fromS, toS}); the batches come as a fragment and take the focus. What is erased
// meanwhile loses its text at once.
class SlowBatches extends HTMLElement {
  connectedCallback() {
    document.body.addEventListener("chart:pick", this.#pick);
    document.body.addEventListener("live:verdicts", this.#news);
    this.querySelector("[data-close]").addEventListener("click", this.#close);
  }

  disconnectedCallback() {
    document.body.removeEventListener("chart:pick", this.#pick);
    document.body.removeEventListener("live:verdicts", this.#news);
  }

  #pick = async ({ detail: { fromS, toS } }) => {
    this.#query = new URLSearchParams({ from: Math.floor(fromS), to: Math.ceil(toS) });
    this.#before ??= document.activeElement;
    await this.#read();
    this.hidden = false;
    this.querySelector("h2").focus();
    this.scrollIntoView({ block: "nearest" });
  };

  #before = null;
  #query = "";

  #read() {
    const target = this.querySelector("[data-body]");
    return htmx.ajax("GET", `${this.dataset.url}?${this.#query}`, { target, swap: "innerHTML" });
  }

  #news = ({ detail: { events } }) => {
    const erased = events.find(({ kind }) => kind === "erased");
    if (!erased || this.hidden) return;
    if (erased.count > erased.ids.length) return this.#read(); // which they are, only the server knows
    for (const id of erased.ids) {
      for (const shown of this.querySelectorAll(`[data-message="${id}"] .text`)) shown.textContent = this.dataset.wordDeleted;
    }
  };

  #close = () => {
    this.hidden = true;
    this.#before?.focus();
    this.#before = null;
  };
}

customElements.define("slow-batches", SlowBatches);
