// Asks, once the card is there, which parts of the text carry the verdict, and marks them. The card
// never waits for it: when the model server is away, a line says so and the texts stay as they are.
class VerdictSpans extends HTMLElement {
  connectedCallback() {
    this.addEventListener("click", this.#again);
    if (!this.dataset.state) this.#ask(); // a card that comes back has its answer
  }

  #again = (event) => {
    if (event.target.closest("[data-again]")) this.#ask();
  };

  async #ask() {
    this.dataset.state = "asked";
    const answer = await this.#fetch();
    if (answer) this.#show(answer);
    else delete this.dataset.state;
  }

  async #fetch() {
    try {
      const response = await fetch(this.dataset.url);
      return response.ok && !response.redirected ? await response.text() : null;
    } catch (error) {
      if (error instanceof TypeError) return null; // the network; the live link says so
      throw error;
    }
  }

  #show(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const answer = template.content.firstElementChild;
    for (const part of answer.querySelectorAll("template")) {
      this.closest("[data-card]").querySelector(`[data-part=${part.dataset.for}]`)?.replaceChildren(part.content);
      part.remove();
    }
    this.dataset.state = answer.dataset.state;
    this.replaceChildren(...answer.childNodes);
  }
}

customElements.define("verdict-spans", VerdictSpans);
