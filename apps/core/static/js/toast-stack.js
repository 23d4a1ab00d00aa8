// Short news at the edge of the page. Any code, or the server by the header
// `HX-Trigger: {"toast": {"text": "Saved"}}`, dispatches `toast` with
// {text, sub?, seconds?, action?: {label, key?, event, detail?}}.
const SECONDS = 8;

class ToastStack extends HTMLElement {
  connectedCallback() {
    document.addEventListener("toast", this.#show);
    for (const toast of this.querySelectorAll("[data-toast]")) this.#arm(toast, SECONDS);
  }

  disconnectedCallback() {
    document.removeEventListener("toast", this.#show);
  }

  #show = ({ detail: { text, sub, seconds = SECONDS, action } }) => {
    const toast = document.createElement("div");
    toast.className = "toast";
    const words = document.createElement("span");
    words.className = "grow";
    words.textContent = text;
    if (sub) {
      const more = document.createElement("span");
      more.className = "toast-sub";
      more.textContent = ` ${sub}`;
      words.append(more);
    }
    toast.append(words);
    if (action) toast.append(this.#button(action, toast));
    this.append(toast);
    this.#arm(toast, seconds);
  };

  #button({ label, key, event, detail }, toast) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "btn";
    button.dataset.size = "sm";
    button.textContent = label;
    if (key) {
      const cap = document.createElement("kbd");
      cap.className = "kbd";
      cap.textContent = key;
      button.append(cap);
    }
    button.addEventListener("click", () => {
      toast.remove();
      document.dispatchEvent(new CustomEvent(event, { detail }));
    });
    return button;
  }

  // Goes by itself, but not while somebody points at it or has its button in focus.
  #arm(toast, seconds) {
    const close = document.createElement("button");
    close.type = "button";
    close.className = "toast-close";
    close.setAttribute("aria-label", this.dataset.wordClose);
    close.textContent = "×";
    close.addEventListener("click", () => toast.remove());
    toast.append(close);
    const leave = () => (toast.matches(":hover, :focus-within") ? setTimeout(leave, 1000) : toast.remove());
    setTimeout(leave, seconds * 1000);
  }
}

customElements.define("toast-stack", ToastStack);
