// Two thumbs over a label's scores, bound to its number inputs, and what the change would cut:
// data-counts holds how many stored scores fall on each hundredth. Without this file the inputs do.
const STEP = 0.01;
const LEAP = 0.05;

const shown = (value) => value.toFixed(2).replace(/^0/, "");
const rounded = (value) => Math.round(value * 100) / 100;

class ThresholdSlider extends HTMLElement {
  #counts = [];
  #was = {};
  #values = {};
  #thumbs = {};

  connectedCallback() {
    if (this.hasAttribute("data-fixed")) return;
    this.#counts = JSON.parse(this.dataset.counts);
    this.#was = { hold: Number(this.dataset.wasHold), remove: Number(this.dataset.wasRemove) };
    for (const limit of ["hold", "remove"]) {
      this.#values[limit] = this.#input(limit).valueAsNumber;
      this.#thumbs[limit] = this.#makeThumb(limit);
      this.#input(limit).addEventListener("input", () => this.#typed(limit));
    }
    this.#draw();
  }

  #input(limit) {
    return this.querySelector(`[data-limit="${limit}"]`);
  }

  #makeThumb(limit) {
    const thumb = document.createElement("button");
    thumb.type = "button";
    thumb.className = "slider-thumb";
    thumb.setAttribute("role", "slider");
    thumb.setAttribute("aria-label", this.dataset[`word${limit[0].toUpperCase()}${limit.slice(1)}`]);
    thumb.setAttribute("aria-valuemin", "0");
    thumb.setAttribute("aria-valuemax", "1");
    thumb.addEventListener("keydown", (event) => this.#key(limit, event));
    thumb.addEventListener("pointerdown", (event) => thumb.setPointerCapture(event.pointerId));
    thumb.addEventListener("pointermove", (event) => thumb.hasPointerCapture(event.pointerId) && this.#drag(limit, event));
    this.querySelector(".slider").append(thumb);
    return thumb;
  }

  #key(limit, event) {
    const step = event.shiftKey ? LEAP : STEP;
    const now = this.#values[limit];
    const next = {
      ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step,
      PageDown: now - LEAP, PageUp: now + LEAP, Home: 0, End: 1,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#move(limit, next);
  }

  #drag(limit, event) {
    const track = this.querySelector(".slider-track").getBoundingClientRect();
    this.#move(limit, (event.clientX - track.left) / track.width);
  }

  // A thumb stops at the other: hold never passes remove.
  #move(limit, value) {
    const [least, most] = limit === "hold" ? [0, this.#values.remove] : [this.#values.hold, 1];
    this.#values[limit] = rounded(Math.min(Math.max(value, least), most));
    this.#input(limit).value = this.#values[limit].toFixed(2);
    this.#input(limit).dispatchEvent(new Event("change", { bubbles: true }));
    this.#draw();
  }

  // What is typed stands as it is, also when it can't be used: the server says why.
  #typed(limit) {
    const value = this.#input(limit).valueAsNumber;
    if (Number.isNaN(value)) return;
    this.#values[limit] = Math.min(Math.max(value, 0), 1);
    this.#draw();
  }

  #draw() {
    const { hold, remove } = this.#values;
    const slider = this.querySelector(".slider");
    slider.style.setProperty("--hold", Math.min(hold, remove));
    slider.style.setProperty("--remove", remove);
    for (const limit of ["hold", "remove"]) {
      this.#thumbs[limit].style.setProperty("--at", this.#values[limit]);
      this.#thumbs[limit].setAttribute("aria-valuenow", this.#values[limit]);
      this.#thumbs[limit].setAttribute("aria-valuetext", shown(this.#values[limit]));
      this.#showLimit(limit);
    }
    this.#showCuts();
  }

  #showLimit(limit) {
    const place = this.closest(".threshold").querySelector(`[data-shown="${limit}"]`);
    const [was, now] = [shown(this.#was[limit]), shown(this.#values[limit])];
    place.textContent = was === now ? now : `${was} → ${now}`;
    const changed = ["hold", "remove"].some((each) => shown(this.#was[each]) !== shown(this.#values[each]));
    this.closest(".threshold").querySelector("[data-changed]").hidden = !changed;
  }

  #showCuts() {
    const [was, now] = [this.#cuts(this.#was), this.#cuts(this.#values)];
    for (const name of ["held", "removed"]) {
      this.querySelector(`[data-now="${name}"]`).textContent = now[name].toLocaleString(document.documentElement.lang);
      this.querySelector(`[data-was="${name}"]`).hidden = was[name] === now[name];
    }
  }

  #cuts({ hold, remove }) {
    const removed = this.#from(remove);
    return { held: Math.max(this.#from(hold) - removed, 0), removed };
  }

  #from(limit) {
    return this.#counts.slice(Math.ceil(rounded(limit) * 100 - 1e-6)).reduce((sum, n) => sum + n, 0);
  }
}

customElements.define("threshold-slider", ThresholdSlider);
