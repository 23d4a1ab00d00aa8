// Refetches its content (by its own hx-get, trigger "refetch") when its topic has news, at most once
// in data-least-ms and always once after the last news. Scroll position and focus stay.
class LiveRegion extends HTMLElement {
  #timer = 0;
  #lastAt = -Infinity;
  #kept = null;

  connectedCallback() {
    document.body.addEventListener(`live:${this.dataset.topic}`, this.#news);
    document.body.addEventListener("live:gap", this.#news);
    this.addEventListener("htmx:beforeSwap", this.#keep);
    this.addEventListener("htmx:afterSwap", this.#restore);
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
    document.body.removeEventListener(`live:${this.dataset.topic}`, this.#news);
    document.body.removeEventListener("live:gap", this.#news);
  }

  refetch = () => {
    this.#timer = 0;
    this.#lastAt = performance.now();
    this.dispatchEvent(new CustomEvent("refetch"));
  };

  #news = () => {
    if (this.#timer) return;
    const wait = this.#lastAt + Number(this.dataset.leastMs) - performance.now();
    this.#timer = setTimeout(this.refetch, Math.max(wait, 0));
  };

  #keep = () => {
    const focused = this.contains(document.activeElement) ? document.activeElement : null;
    this.#kept = {
      top: this.querySelector(".scroll")?.scrollTop ?? 0,
      href: focused?.getAttribute("href"),
    };
  };

  #restore = () => {
    const { top, href } = this.#kept ?? {};
    const scroll = this.querySelector(".scroll");
    if (scroll && top) scroll.scrollTop = top;
    if (href) this.querySelector(`[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
    this.dispatchEvent(new CustomEvent("region:updated", { bubbles: true }));
  };
}

customElements.define("live-region", LiveRegion);
