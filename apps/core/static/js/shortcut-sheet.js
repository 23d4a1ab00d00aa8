// `?` and any [data-open-shortcuts] button open the page's list of keys.
const TYPES_TEXT = "input, textarea, select, [contenteditable]";

class ShortcutSheet extends HTMLElement {
  connectedCallback() {
    document.addEventListener("keydown", this.#key);
    document.addEventListener("click", this.#click);
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.#key);
    document.removeEventListener("click", this.#click);
  }

  #key = (event) => {
    const typing = event.target.closest?.(TYPES_TEXT);
    if (event.key !== "?" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#open();
  };

  #click = (event) => {
    if (event.target.closest("[data-open-shortcuts]")) this.#open();
  };

  #open() {
    const dialog = this.querySelector("dialog");
    if (!dialog.open) dialog.showModal();
  }
}

customElements.define("shortcut-sheet", ShortcutSheet);
