// The decisions that can still be taken back, newest shown, with the time that is left.
// `add({decision, text, left_ms})`; a click or U says `undo:wanted` with the decision's id.
const KEEP_MARGIN_MS = 300; // the server's clock decides; don't offer what is about to be refused

class UndoBar extends HTMLElement {
  #open = []; // newest last
  #timer = 0;

  connectedCallback() {
    for (const form of this.querySelectorAll("form[data-decision]")) {
      const text = form.querySelector(".grow").textContent.trim();
      this.add({ decision: Number(form.dataset.decision), text, left_ms: Number(form.dataset.leftMs), most_ms: Number(form.dataset.mostMs) });
    }
    this.addEventListener("click", this.#click);
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
  }

  add({ decision, text, left_ms: leftMs, most_ms: mostMs }) {
    const endsAt = performance.now() + leftMs - KEEP_MARGIN_MS;
    this.#open.push({ decision, text, endsAt, mostMs: mostMs ?? leftMs });
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), 100);
    this.#draw();
  }

  // The newest decision that can be taken back; it is offered no more.
  take() {
    this.#drop();
    const newest = this.#open.pop();
    this.#draw();
    return newest?.decision;
  }

  #click = (event) => {
    if (!event.target.closest("button")) return;
    event.preventDefault();
    this.dispatchEvent(new CustomEvent("undo:wanted", { bubbles: true }));
  };

  #drop() {
    const now = performance.now();
    this.#open = this.#open.filter(({ endsAt }) => endsAt > now);
  }

  #tick() {
    const shown = this.#open.at(-1);
    this.#drop();
    if (this.#open.at(-1) !== shown) return this.#draw();
    this.#count(shown);
  }

  #draw() {
    const newest = this.#open.at(-1);
    if (!newest) {
      clearInterval(this.#timer);
      this.replaceChildren();
      return;
    }
    const toast = document.createElement("div");
    toast.className = "toast";
    const words = document.createElement("span");
    words.className = "grow clip";
    words.textContent = newest.text;
    const left = document.createElement("span");
    left.className = "toast-sub num";
    left.setAttribute("aria-hidden", "true"); // ten times a second is nothing to read out
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn";
    button.dataset.size = "sm";
    const cap = document.createElement("kbd");
    cap.className = "kbd";
    cap.textContent = this.dataset.key;
    button.append(`${this.dataset.wordUndo} `, cap);
    toast.append(words, left, button);
    this.replaceChildren(toast);
    this.#count(newest);
  }

  #count({ endsAt, mostMs }) {
    const leftMs = Math.max(endsAt - performance.now(), 0);
    const toast = this.querySelector(".toast");
    toast.style.setProperty("--left", (leftMs / mostMs).toFixed(3));
    toast.querySelector(".toast-sub").textContent = `${this.dataset.wordFinal} ${(leftMs / 1000).toFixed(1)}\u00a0s`;
  }
}

customElements.define("undo-bar", UndoBar);
