// A field that takes the key that is pressed in it, in place of what it held. Tab, Enter and all
// combinations do what they always do; without this file one types the character.
class KeyField extends HTMLElement {
  connectedCallback() {
    const field = this.querySelector("input");
    field.addEventListener("focus", () => field.select());
    field.addEventListener("keydown", (event) => {
      if ([...event.key].length !== 1 || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      event.preventDefault();
      field.value = event.key.toLowerCase();
      field.select();
    });
  }
}

customElements.define("key-field", KeyField);
