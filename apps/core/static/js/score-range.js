// Two thumbs and a drag over the chart of scores, bound to the form's numbers; the list below is
// fetched when they rest. Without this file the numbers and the button do.
const STEP = 0.01;
const LEAP = 0.05;
const RESTS_AFTER_MS = 250;

const rounded = (value) => Math.round(Math.min(Math.max(value, 0), 1) * 100) / 100;

class ScoreRange extends HTMLElement {
  #thumbs = {};
  #anchor = null; // where a drag began
  #timer = 0;

  connectedCallback() {
    for (const end of ["low", "high"]) {
      this.#thumbs[end] = this.#makeThumb(end);
      this.#input(end).addEventListener("change", () => this.#changed());
    }
    this.#chart.addEventListener("pointerdown", this.#begin);
    this.#chart.addEventListener("pointermove", this.#drag);
    this.#chart.addEventListener("pointerup", () => (this.#anchor = null));
    this.querySelector("[data-range]").addEventListener("submit", this.#submit);
    this.addEventListener("change", (event) => event.target.matches("[name=item]") && this.#count());
    document.addEventListener("keydown", this.#key);
    this.#draw();
    this.#count();
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.#key);
  }

  get #chart() {
    return this.querySelector("[data-chart]");
  }

  #input(end) {
    return this.querySelector(`[name="${end}"]`);
  }

  #value(end) {
    return rounded(this.#input(end).valueAsNumber || 0);
  }

  #makeThumb(end) {
    const thumb = document.createElement("button");
    thumb.type = "button";
    thumb.className = "dots-thumb";
    thumb.setAttribute("role", "slider");
    thumb.setAttribute("aria-label", this.dataset[`word${end[0].toUpperCase()}${end.slice(1)}`]);
    thumb.setAttribute("aria-valuemin", "0");
    thumb.setAttribute("aria-valuemax", "1");
    thumb.addEventListener("keydown", (event) => this.#move(end, event));
    this.#chart.append(thumb);
    return thumb;
  }

  #move(end, event) {
    const step = event.shiftKey ? LEAP : STEP;
    const now = this.#value(end);
    const next = {
      ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step,
      PageDown: now - LEAP, PageUp: now + LEAP, Home: 0, End: 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#set(end === "low" ? [Math.min(next, this.#value("high")), this.#value("high")] : [this.#value("low"), Math.max(next, this.#value("low"))]);
  }

  #at(event) {
    const box = this.#chart.getBoundingClientRect();
    return rounded((event.clientX - box.left) / box.width);
  }

  #begin = (event) => {
    if (event.button) return;
    event.preventDefault();
    this.#chart.setPointerCapture(event.pointerId);
    // Near an end that end moves; elsewhere a new range begins.
    const at = this.#at(event);
    const near = ["low", "high"].find((end) => Math.abs(this.#value(end) - at) <= 0.015);
    this.#anchor = near ? this.#value(near === "low" ? "high" : "low") : at;
    this.#set([Math.min(this.#anchor, at), Math.max(this.#anchor, at)]);
  };

  #drag = (event) => {
    if (this.#anchor === null) return;
    const at = this.#at(event);
    this.#set([Math.min(this.#anchor, at), Math.max(this.#anchor, at)]);
  };

  #set([low, high]) {
    this.#input("low").value = rounded(low).toFixed(2);
    this.#input("high").value = rounded(high).toFixed(2);
    this.#changed();
  }

  #submit = (event) => {
    event.preventDefault();
    this.#changed();
  };

  #changed() {
    this.#draw();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fetch(), RESTS_AFTER_MS);
  }

  #draw() {
    const [low, high] = [this.#value("low"), this.#value("high")];
    this.style.setProperty("--low", Math.min(low, high));
    this.style.setProperty("--high", Math.max(low, high));
    for (const end of ["low", "high"]) this.#thumbs[end].setAttribute("aria-valuenow", this.#value(end));
  }

  async #fetch() {
    const form = this.querySelector("[data-range]");
    const url = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
    try {
      const answer = await fetch(url, { headers: { "X-Fragment": "range" } });
      if (!answer.ok) return;
      this.querySelector("[data-list]").innerHTML = await answer.text();
      history.replaceState(null, "", url);
      this.querySelector("reveal-veil")?.tell?.();
      this.#count();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the network: the list stays as it was
    }
  }

  #count() {
    const place = this.querySelector("[data-chosen]");
    const boxes = [...this.querySelectorAll("[name=item]")];
    if (place) place.textContent = `${boxes.filter((box) => box.checked).length} / ${boxes.length}`;
  }

  #key = (event) => {
    const isTyping = event.target.closest?.("input:not([type=checkbox]), textarea, select");
    if (event.key.toLowerCase() !== this.dataset.undoKey || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    document.querySelector("[data-undo]")?.requestSubmit();
  };
}

customElements.define("score-range", ScoreRange);
