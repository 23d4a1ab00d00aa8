// Counts a lease down. Says `lease:low` at half time, when whoever works extends it, and
// `lease:ended` when it has run out.
import { duration } from "./live-ages.js";

class LeaseClock extends HTMLElement {
  #endsAt = 0;
  #timer = 0;
  #saidLow = false;

  connectedCallback() {
    this.set(Number(this.dataset.leftMs));
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
  }

  set(leftMs) {
    this.#endsAt = performance.now() + leftMs;
    this.#saidLow = false;
    clearInterval(this.#timer); // it may have run out
    this.#timer = setInterval(() => this.#tick(), 250);
    this.#tick();
  }

  #tick() {
    const left = Math.max(this.#endsAt - performance.now(), 0);
    const share = left / Number(this.dataset.mostMs);
    this.querySelector(".ring").style.setProperty("--at", share.toFixed(3));
    this.querySelector("[data-left]").textContent = duration(left / 1000);
    if (left > 0 && share < 0.5 && !this.#saidLow) {
      this.#saidLow = true;
      this.#say("lease:low");
    }
    if (left > 0) return;
    clearInterval(this.#timer);
    this.#say("lease:ended");
  }

  #say(name) {
    this.dispatchEvent(new CustomEvent(name, { bubbles: true }));
  }
}

customElements.define("lease-clock", LeaseClock);
