// A <details> that behaves as a menu: Escape and a click elsewhere close it.
class PopMenu extends HTMLElement {
  connectedCallback() {
    document.addEventListener("click", this.#click);
    this.addEventListener("keydown", this.#key);
    this.addEventListener("focusout", this.#blur);
  }

  disconnectedCallback() {
    document.removeEventListener("click", this.#click);
  }

  get #details() {
    return this.querySelector("details");
  }

  #click = (event) => {
    if (!this.contains(event.target)) this.#details.open = false;
  };

  #key = (event) => {
    if (event.key !== "Escape" || !this.#details.open) return;
    event.stopPropagation();
    this.#details.open = false;
    this.querySelector("summary").focus();
  };

  #blur = ({ relatedTarget }) => {
    if (relatedTarget && !this.contains(relatedTarget)) this.#details.open = false;
  };
}

customElements.define("pop-menu", PopMenu);
