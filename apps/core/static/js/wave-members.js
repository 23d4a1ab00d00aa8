// The members of a wave: takes them out and reads further ones without leaving the card. Without
// this file its forms and links lead to pages.
class WaveMembers extends HTMLElement {
  connectedCallback() {
    this.addEventListener("submit", this.#submit);
    this.addEventListener("click", this.#click);
  }

  #submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const at = [...this.querySelectorAll("form")].indexOf(form);
    const answer = await this.#fetch(form.getAttribute("action"), { method: "POST", body: new FormData(form) });
    if (!answer) return;
    if (answer.status === 409) return this.#toast(await answer.json());
    if (answer.redirected) return location.assign(answer.url); // signed out
    if (!answer.ok) return;
    await this.#replace(answer);
    this.#toast({ text: this.dataset.wordTaken });
    const forms = this.querySelectorAll("form");
    (forms[Math.min(at, forms.length - 1)]?.querySelector("button") ?? this.closest("[tabindex]"))?.focus();
  };

  #click = async (event) => {
    const link = event.target.closest("[data-more]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const answer = await this.#fetch(link.href, {});
    if (!answer?.ok || answer.redirected) return;
    await this.#replace(answer);
    this.querySelector("button, a")?.focus({ preventScroll: true });
  };

  async #replace(answer) {
    const html = await answer.text();
    if (!this.isConnected) return; // the card went meanwhile
    this.innerHTML = html;
    const size = this.querySelector("[data-wave-size]")?.textContent;
    for (const figure of this.closest("[data-card]").querySelectorAll(".actions .action b")) figure.textContent = size ?? "";
  }

  async #fetch(url, options) {
    try {
      return await fetch(url, { ...options, headers: { "X-Fragment": "wave" } });
    } catch (error) {
      if (error instanceof TypeError) return null; // the network; the live link says so
      throw error;
    }
  }

  #toast(detail) {
    document.dispatchEvent(new CustomEvent("toast", { detail }));
  }
}

customElements.define("wave-members", WaveMembers);
