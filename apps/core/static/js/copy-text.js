// A button that copies the text beside it. Hidden where the clipboard can't be used.
class CopyText extends HTMLElement {
  connectedCallback() {
    const button = this.querySelector("button");
    if (!navigator.clipboard) return;
    button.hidden = false;
    button.addEventListener("click", () => this.#copy(button));
  }

  async #copy(button) {
    await navigator.clipboard.writeText(this.querySelector("[data-text]").textContent);
    button.textContent = button.dataset.wordDone;
  }
}

customElements.define("copy-text", CopyText);
