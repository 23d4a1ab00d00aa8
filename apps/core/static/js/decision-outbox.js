// Sends writes to the server one after the other, in order, and keeps them when the line is down.
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;

export class DecisionOutbox {
  #waiting = []; // {url, body, item, card}; mayStand: it was sent once and never answered
  #sending = null;
  #flight = Promise.resolve(); // ends when what is on its way has its answer
  #tries = 0;
  #timer = 0;

  // `answered(entry, {status, data})` for every final answer, `changed(count, isStuck)` for the rest.
  constructor({ answered, changed }) {
    this.answered = answered;
    this.changed = changed;
    addEventListener("online", () => this.#send());
  }

  get items() {
    return [this.#sending, ...this.#waiting].filter(Boolean).map(({ item }) => item);
  }

  push(entry, { first = false } = {}) {
    if (first) this.#waiting.unshift(entry);
    else this.#waiting.push(entry);
    this.#send();
  }

  // What waits for an item gets these values: it has another lease than when it was written.
  amend(item, values) {
    for (const entry of this.#waiting.filter((one) => one.item === item)) {
      for (const [name, value] of Object.entries(values)) entry.body.set(name, value);
    }
  }

  // Takes the newest one back if it has not left yet. One that is on its way is waited for: until
  // it has its answer nobody can say which decision is the newest.
  async recall() {
    if (!this.#waiting.length) await this.#flight;
    const newest = this.#waiting.at(-1);
    if (!newest || newest.isRecall) return undefined; // nothing to take back, or it is under way
    const entry = this.#waiting.pop();
    this.changed(this.items.length, this.#tries > 0);
    return entry;
  }

  #send() {
    clearTimeout(this.#timer);
    if (this.#sending || !this.#waiting.length) return;
    const entry = this.#waiting.shift();
    this.#sending = entry;
    this.#flight = this.#post(entry).then((answer) => this.#landed(entry, answer));
  }

  #landed(entry, answer) {
    this.#sending = null;
    if (answer === null) return this.#later(entry);
    this.#tries = 0;
    this.changed(this.items.length, false);
    this.answered(entry, answer);
    this.#send();
  }

  async #post({ url, body }) {
    try {
      const response = await fetch(url, { method: "POST", body, headers: { Accept: "application/json" } });
      if (response.redirected) return location.assign(response.url), null; // signed out
      if (response.status >= 500) return null;
      const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
      return { status: response.status, data: isJson ? await response.json() : {} };
    } catch (error) {
      if (error instanceof TypeError) return null; // the network
      throw error;
    }
  }

  #later(entry) {
    entry.mayStand = true;
    this.#waiting.unshift(entry);
    this.#tries += 1;
    this.changed(this.items.length, true);
    const most = Math.min(FIRST_WAIT_MS * 2 ** this.#tries, LONGEST_WAIT_MS);
    this.#timer = setTimeout(() => this.#send(), most * (0.5 + Math.random() / 2));
  }
}
