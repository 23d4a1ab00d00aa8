// Asks now and then, while cards are shown, whether a break is due, and says so in a quiet line.
// It takes no focus, makes no sound and covers no card. It is spoken once: while it stands it is not
// put there again.
const ASK_AT_MOST_EVERY_MS = 60_000;

class BreakReminder extends HTMLElement {
  #askedAt = -Infinity;
  #isShown = false;

  connectedCallback() {
    this.addEventListener("submit", this.#putOff);
    document.addEventListener("desk:shown", this.#shown);
    this.#ask();
  }

  disconnectedCallback() {
    document.removeEventListener("desk:shown", this.#shown);
  }

  #shown = () => {
    if (performance.now() - this.#askedAt >= ASK_AT_MOST_EVERY_MS) this.#ask();
  };

  async #ask() {
    this.#askedAt = performance.now();
    const answer = await this.#fetch(this.dataset.url, {});
    if (!answer?.ok) return;
    if (answer.status === 204) this.#show("");
    else if (!this.#isShown) this.#show(await answer.text());
  }

  #show(html) {
    this.#isShown = html !== "";
    this.innerHTML = html;
  }

  #putOff = async (event) => {
    event.preventDefault();
    const form = event.target;
    const hadFocus = this.contains(document.activeElement);
    const options = { method: "POST", body: new FormData(form), headers: { "X-Fragment": "reminder" } };
    const answer = await this.#fetch(form.getAttribute("action"), options);
    if (!answer?.ok) return;
    this.#show("");
    if (hadFocus) document.querySelector("[data-card] [data-focus]")?.focus({ preventScroll: true });
  };

  async #fetch(url, options) {
    try {
      return await fetch(url, options);
    } catch (error) {
      if (error instanceof TypeError) return null; // the network; the live link says so
      throw error;
    }
  }
}

customElements.define("break-reminder", BreakReminder);
