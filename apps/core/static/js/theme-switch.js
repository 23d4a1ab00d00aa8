// Goes round system, light, dark, and stores the choice in the cookie that the server reads, so
// the next page is painted right at once. Without this file the form does the same by a reload.
const ORDER = ["", "light", "dark"];
const ONE_YEAR_S = 31_536_000;

class ThemeSwitch extends HTMLElement {
  connectedCallback() {
    this.addEventListener("submit", this.#switch);
  }

  disconnectedCallback() {
    this.removeEventListener("submit", this.#switch);
  }

  #switch = (event) => {
    event.preventDefault();
    const root = document.documentElement;
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "") + 1) % ORDER.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `theme=${next}; path=/; max-age=${ONE_YEAR_S}; samesite=lax${secure}`;
    document.dispatchEvent(new CustomEvent("theme:changed"));
  };
}

customElements.define("theme-switch", ThemeSwitch);
