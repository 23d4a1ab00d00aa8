// What a spike was made of. A click on a chart, or the button beside the ranges, tells which moment
// (`chart:pick`, {fromS, toS}); the batches come as a fragment and take the focus.
class SlowBatches extends HTMLElement {
  connectedCallback() {
    document.body.addEventListener("chart:pick", this.#pick);
    this.querySelector("[data-close]").addEventListener("click", this.#close);
  }

  disconnectedCallback() {
    document.body.removeEventListener("chart:pick", this.#pick);
  }

  #pick = async ({ detail: { fromS, toS } }) => {
    const body = this.querySelector("[data-body]");
    const query = new URLSearchParams({ from: Math.floor(fromS), to: Math.ceil(toS) });
    this.#before ??= document.activeElement;
    await htmx.ajax("GET", `${this.dataset.url}?${query}`, { target: body, swap: "innerHTML" });
    this.hidden = false;
    this.querySelector("h2").focus();
    this.scrollIntoView({ block: "nearest" });
  };

  #before = null;

  #close = () => {
    this.hidden = true;
    this.#before?.focus();
    this.#before = null;
  };
}

customElements.define("slow-batches", SlowBatches);
