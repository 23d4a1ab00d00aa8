// Ctrl K (or Cmd K): type a few letters, Enter goes there or does it. What it offers is gathered
// from the page each time it opens, so it never offers what the page would not: its own list of
// pages, links with data-palette, the filter's groups and languages, and the card's actions.
const SHOWN_MOST = 40;

class CommandPalette extends HTMLElement {
  #entries = []; // {kind, name, key, run}
  #found = [];
  #at = 0;

  connectedCallback() {
    document.addEventListener("keydown", this.#open, true);
    this.#input.addEventListener("input", () => this.#search());
    this.#input.addEventListener("keydown", this.#key);
    this.#list.addEventListener("click", this.#click);
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.#open, true);
  }

  get #dialog() {
    return this.querySelector("dialog");
  }

  get #input() {
    return this.querySelector("[role=combobox]");
  }

  get #list() {
    return this.querySelector("[role=listbox]");
  }

  #open = (event) => {
    const wanted = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!wanted) return;
    event.preventDefault(); // browsers search the web with it
    if (this.#dialog.open) return this.#dialog.close();
    if (document.querySelector("dialog[open]")) return;
    this.#entries = [...this.#acts(), ...this.#links(), ...this.#options(), ...this.#pages()];
    this.#input.value = "";
    this.#dialog.showModal();
    this.#search();
  };

  *#acts() {
    for (const element of document.querySelectorAll("[data-card] [data-command]")) {
      const label = element.type === "radio" ? element.closest("label") : element;
      const key = label.querySelector("kbd")?.textContent ?? "";
      yield { kind: this.dataset.wordAct, name: words(label), key, run: () => element.click() };
    }
  }

  *#links() {
    for (const link of document.querySelectorAll("a[data-palette]")) {
      yield { kind: link.dataset.palette, name: words(link), run: () => location.assign(link.href) };
    }
  }

  *#options() {
    const kinds = { group: this.dataset.wordGroup, lang: this.dataset.wordLanguage };
    for (const option of document.querySelectorAll("[data-submit-on-change] option[value]:not([value=''])")) {
      const select = option.closest("select");
      yield { kind: kinds[select.name] ?? "", name: words(option), run: () => choose(select, option.value) };
    }
  }

  *#pages() {
    for (const link of this.querySelector("template").content.querySelectorAll("a")) {
      yield { kind: this.dataset.wordPage, name: words(link), run: () => location.assign(link.getAttribute("href")) };
    }
  }

  #search() {
    const wanted = fold(this.#input.value).split(/\s+/).filter(Boolean);
    const matches = this.#entries.filter((entry) => wanted.every((part) => fold(`${entry.kind} ${entry.name}`).includes(part)));
    const isFirst = (entry) => (wanted.length && fold(entry.name).startsWith(wanted[0]) ? 0 : 1);
    this.#found = matches.sort((a, b) => isFirst(a) - isFirst(b)).slice(0, SHOWN_MOST);
    this.#list.replaceChildren(...this.#found.map((entry, index) => row(entry, index)));
    this.querySelector("[data-found]").textContent = this.#found.length || this.dataset.wordNone;
    this.#list.dataset.none = this.#found.length ? "" : this.dataset.wordNone;
    this.#choose(0);
  }

  #choose(at) {
    this.#at = Math.min(Math.max(at, 0), this.#found.length - 1);
    for (const [index, option] of [...this.#list.children].entries()) {
      option.setAttribute("aria-selected", String(index === this.#at));
      if (index === this.#at) option.scrollIntoView({ block: "nearest" });
    }
    if (this.#at >= 0) this.#input.setAttribute("aria-activedescendant", `palette-${this.#at}`);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #key = (event) => {
    if (event.isComposing) return;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) this.#choose(this.#at + steps[event.key]);
    else if (event.key === "Enter") this.#run(this.#at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  #click = (event) => {
    const option = event.target.closest("[role=option]");
    if (option) this.#run([...this.#list.children].indexOf(option));
  };

  #run(at) {
    const entry = this.#found[at];
    if (!entry) return;
    this.#dialog.close();
    entry.run();
  }
}

function choose(select, value) {
  select.value = value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

// What an element says, without its key cap.
function words(element) {
  const copy = element.cloneNode(true);
  for (const cap of copy.querySelectorAll("kbd")) cap.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
}

function fold(text) {
  return text.normalize("NFKC").toLocaleLowerCase();
}

function row({ kind, name, key }, index) {
  const option = document.createElement("li");
  option.id = `palette-${index}`;
  option.setAttribute("role", "option");
  const what = document.createElement("span");
  what.className = "small faint";
  what.textContent = kind;
  const label = document.createElement("bdi");
  label.className = "clip";
  label.textContent = name;
  option.append(what, label);
  if (key) {
    const cap = document.createElement("kbd");
    cap.className = "kbd";
    cap.textContent = key;
    option.append(cap);
  }
  return option;
}

customElements.define("command-palette", CommandPalette);
