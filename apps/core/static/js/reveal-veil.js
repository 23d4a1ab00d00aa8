// Blurred texts: shown and blurred again by key or press, or shown only as long as either is held
// (data-hold). Enter and Space on it always do it in turn, for who cannot hold. That something was
// shown is told to data-count-url. Without this file it is a <details> that a click opens.
const TYPES_TEXT = "input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]";

class RevealVeil extends HTMLElement {
  #heldKey = null;

  connectedCallback() {
    this.#details.addEventListener("toggle", this.#toggled);
    this.#details.addEventListener("click", this.#click);
    this.#details.addEventListener("pointerdown", this.#down);
    addEventListener("pointerup", this.#up);
    addEventListener("pointercancel", this.#up);
    addEventListener("keyup", this.#keyUp);
    addEventListener("blur", this.#letGo);
    // The review page has keys of its own, and calls `press`.
    if (this.dataset.key) document.addEventListener("keydown", this.#key);
  }

  disconnectedCallback() {
    removeEventListener("pointerup", this.#up);
    removeEventListener("pointercancel", this.#up);
    removeEventListener("keyup", this.#keyUp);
    removeEventListener("blur", this.#letGo);
    document.removeEventListener("keydown", this.#key);
  }

  get #details() {
    return this.querySelector("details");
  }

  get #isHeld() {
    return this.hasAttribute("data-hold");
  }

  // By a key that may be kept down. A repeat of it must not blur and show in turn.
  press(event) {
    if (event.repeat) return;
    if (!this.#isHeld) this.#details.open = !this.#details.open;
    else {
      this.#heldKey = event.code;
      this.#details.open = true;
    }
  }

  // What is behind it changed while it was open.
  tell() {
    if (this.#details.open) this.#count();
  }

  #key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key.toLowerCase() !== this.dataset.key || event.target.closest?.(TYPES_TEXT)) return;
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    this.press(event);
  };

  #keyUp = (event) => {
    if (this.#heldKey === event.code) this.#letGo();
  };

  #down = (event) => {
    if (!this.#isHeld || event.button || !event.target.closest("summary")) return;
    this.#heldKey = "pointer";
    this.#details.open = true;
  };

  #up = () => {
    if (this.#heldKey === "pointer") this.#letGo();
  };

  #letGo = () => {
    if (this.#heldKey === null) return;
    this.#heldKey = null;
    this.#details.open = false;
  };

  // A click that ends a hold. One by Enter, Space or a screen reader has no count.
  #click = (event) => {
    if (this.#isHeld && event.detail > 0) event.preventDefault();
  };

  #toggled = () => {
    this.tell();
  };

  async #count() {
    const { countUrl, csrf, item } = this.dataset;
    if (!countUrl) return;
    const boxes = [...document.querySelectorAll("[data-list] [name=item]")];
    const items = item ? [item] : boxes.map((box) => box.value.split(":")[0]);
    if (!items.length) return;
    const body = new FormData();
    body.append("csrfmiddlewaretoken", csrf);
    for (const one of items) body.append("item", one);
    try {
      await fetch(countUrl, { method: "POST", body, keepalive: true });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the network; the live link says so
    }
  }
}

customElements.define("reveal-veil", RevealVeil);
