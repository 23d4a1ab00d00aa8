// The flow of the review page: decide with a key, have the next card at once (it was fetched and
// leased ahead), take back, and notice at once when somebody else acted. Without this file each
// form posts and the page loads anew.
import { DecisionOutbox } from "./decision-outbox.js";

const TYPES_TEXT = "input:not([type=radio]), textarea, select, [contenteditable]";
const FRESH_FOR_MS = 5000;
const ACTIVE_FOR_MS = 60_000;
const ENDS_IT = new Set(["decided", "withdrawn", "escalated"]);
const MAY_BRING_WORK = new Set(["opened", "released", "reopened"]);

class ReviewDesk extends HTMLElement {
  #ahead = null; // the next card, leased
  #fetching = null;
  #isDry = false; // nothing was there when last asked
  #hasAskedAgain = false;
  #isLeaving = false;
  #day = null;
  #today = null; // decisions of today, as far as the page knows
  #pendingAction = null; // waits for a label
  #commands = JSON.parse(this.dataset.keys); // key -> command
  #undoing = Promise.resolve(); // one after the other: each takes what is the newest then
  #activeAt = performance.now();
  #outbox = new DecisionOutbox({
    answered: (entry, answer) => this.#answered(entry, answer),
    changed: (count, isStuck) => this.#showWaiting(count, isStuck),
  });

  connectedCallback() {
    this.addEventListener("submit", this.#submit);
    this.addEventListener("click", this.#click);
    this.addEventListener("change", this.#change);
    this.addEventListener("undo:wanted", () => this.#undo());
    this.addEventListener("lease:low", () => this.#keepWorking());
    this.addEventListener("lease:ended", () => this.#look());
    this.addEventListener("region:updated", () => this.#markRow());
    document.addEventListener("keydown", this.#key);
    document.addEventListener("desk:see", this.#see);
    document.body.addEventListener("live:review", this.#live);
    document.body.addEventListener("live:gap", this.#gap);
    addEventListener("beforeunload", this.#startLeaving);
    addEventListener("pagehide", this.#leave);
    addEventListener("pageshow", this.#comeBack);
    for (const kind of ["pointermove", "wheel", "touchstart"]) addEventListener(kind, this.#wasActive, { passive: true });
    this.#writeToday();
    this.#markRow();
    this.#fetchAhead();
    this.#moreWork(); // the page itself may have come empty
  }

  disconnectedCallback() {
    document.removeEventListener("keydown", this.#key);
    document.removeEventListener("desk:see", this.#see);
    document.body.removeEventListener("live:review", this.#live);
    document.body.removeEventListener("live:gap", this.#gap);
    removeEventListener("beforeunload", this.#startLeaving);
    removeEventListener("pagehide", this.#leave);
    removeEventListener("pageshow", this.#comeBack);
    for (const kind of ["pointermove", "wheel", "touchstart"]) removeEventListener(kind, this.#wasActive);
  }

  get #slot() {
    return this.querySelector("[data-slot]");
  }

  get #card() {
    return this.#slot.querySelector("[data-card]");
  }

  get #undoBar() {
    return this.querySelector("undo-bar");
  }

  // ---------- deciding ----------

  #submit = (event) => {
    if (!event.target.matches("[data-decide]")) return;
    event.preventDefault();
    // Enter in the note decides as suggested, or not at all.
    const button = event.submitter?.matches("[data-command]") ? event.submitter : null;
    const isTyped = document.activeElement?.matches("[data-note]");
    const chosen = isTyped ? event.target.querySelector("[data-suggested]") : button;
    if (chosen) this.#act(chosen);
  };

  #act(button) {
    const card = this.#card;
    if (card.dataset.state !== "leased") return;
    const form = button.form;
    if (!button.formNoValidate && !form.reportValidity()) return; // an appeal needs a reason
    const body = new FormData(form, button);
    const needsLabel = button.name === "action" && button.value !== "allow";
    if (needsLabel && !body.get("label") && !body.get("suggested")) return this.#askLabel(button);
    this.#pendingAction = null;
    card.dataset.state = "sent";
    // Attributes, not properties: the form has fields named `action`.
    const url = button.getAttribute("formaction") ?? form.getAttribute("action");
    this.#outbox.push({ url, body, item: Number(card.dataset.item), card });
    this.#advance();
  }

  #askLabel(button) {
    this.#pendingAction = button;
    this.#toast({ text: this.dataset.wordLabel });
    this.#card.toggleAttribute("data-asks", true);
    this.#card.querySelector("[name=label]").focus();
  }

  #answered(entry, { status, data }) {
    if (status === 200) {
      if (entry.isRecall) return this.#recalled(entry.card, data);
      if (data.decision) this.#undoBar.add({ ...data, left_ms: data.undo_ms });
      if (data.decision) this.#countToday(data.count);
      return;
    }
    if (entry.isRecall) entry.card.removeAttribute("data-recalled");
    if (entry.isRecall && entry.card === this.#card) this.#look();
    const text = data.text ?? `${this.dataset.wordFailed} (${status})`;
    const see = { label: this.dataset.wordSee, event: "desk:see", detail: { item: entry.item } };
    this.#toast({ text, sub: data.sub, action: see });
  }

  #showWaiting(count, isStuck) {
    this.toggleAttribute("data-stuck", isStuck && count > 0);
    const line = this.querySelector("[data-waiting]");
    const word = count === 1 ? this.dataset.wordWaitingOne : this.dataset.wordWaiting;
    line.textContent = isStuck && count ? `${count} ${word}` : "";
  }

  // A card that was fetched ahead does not know what was decided since: the desk keeps the count.
  #countToday(step) {
    if (this.#today !== null) this.#today += step;
    this.#writeToday();
  }

  #writeToday() {
    const day = new Date().toISOString().slice(0, 10); // the server counts by days of UTC, too
    if (day !== this.#day) this.#today = null;
    this.#day = day;
    this.#today ??= todayOn(this);
    if (this.#today === null) return;
    for (const figure of this.querySelectorAll("[data-today]")) {
      figure.textContent = this.#today.toLocaleString(document.documentElement.lang);
    }
  }

  #undo() {
    const next = () => this.#undoNewest();
    this.#undoing = this.#undoing.then(next, next);
  }

  async #undoNewest() {
    const unsent = await this.#outbox.recall();
    if (unsent) {
      unsent.card.dataset.state = "leased";
      if (unsent.mayStand) this.#recall(unsent.card);
      this.#putBack(unsent.card);
      return;
    }
    const decision = this.#undoBar.take();
    if (!decision) return;
    const url = this.#undoBar.dataset.undoUrl.replace("/0/", `/${decision}/`);
    const response = await this.#post(url, {}, { "X-Fragment": "card" });
    if (!response) return;
    if (response.status === 409) return this.#toast(await response.json());
    const card = this.#parse(await response.text());
    this.#today = todayOn(card); // a wave or a range took many back
    this.#putBack(card);
  }

  // The line broke before the answer came, so nobody knows whether the decision stands. Whatever it
  // is, the server takes it back before anything else of this page is sent.
  #recall(card) {
    card.toggleAttribute("data-recalled", true); // until the answer its token is not the newest
    const { item, token, recallUrl } = card.dataset;
    this.#outbox.push({ url: recallUrl, body: this.#body({ token }), item: Number(item), card, isRecall: true }, { first: true });
  }

  #recalled(card, { token, version }) {
    card.removeAttribute("data-recalled");
    const fresh = { token, version: String(version) };
    Object.assign(card.dataset, fresh);
    for (const [name, value] of Object.entries(fresh)) card.querySelector(`[name=${name}]`).value = value;
    this.#outbox.amend(Number(card.dataset.item), fresh);
    if (card === this.#card && card.dataset.state === "leased") this.#extend(card);
  }

  // Shows a card again; the one on the desk becomes the next, and what was next goes back.
  #putBack(card) {
    const current = this.#card;
    if (current.dataset.state === "leased" && current.dataset.item !== card.dataset.item) {
      if (this.#ahead) this.#release(this.#ahead);
      this.#ahead = current;
    }
    this.#show(card);
  }

  // ---------- the next card ----------

  async #advance() {
    if (!this.#ahead) {
      const left = this.#card;
      left.setAttribute("aria-busy", "true");
      await (this.#fetching ?? this.#fetchAhead());
      if (this.#card !== left) return; // an undo or a choice put another on the desk meanwhile
    }
    const next = this.#ahead ?? this.#emptyCard;
    this.#ahead = null;
    this.removeAttribute("data-ready");
    if (!next) return; // the line is down: the outbox says so, and news will bring the next
    this.#show(next);
    this.#fetchAhead();
  }

  #emptyCard = null;

  #fetchAhead() {
    if (this.#ahead || this.#fetching) return this.#fetching;
    const besides = [...this.#outbox.items, this.#card?.dataset.item].filter(Boolean);
    this.#fetching = this.#fetchNext(besides).finally(() => {
      this.#fetching = null;
    });
    return this.#fetching;
  }

  async #fetchNext(besides) {
    const response = await this.#post(this.dataset.nextUrl, { besides });
    if (!response?.ok) return;
    const card = this.#parse(await response.text());
    this.#isDry = card.dataset.state === "empty";
    if (this.#isDry) this.#emptyCard = card;
    else if (card.dataset.item !== this.#card.dataset.item) this.#ahead = card; // else it was chosen meanwhile
    this.toggleAttribute("data-ready", Boolean(this.#ahead));
  }

  #show(card) {
    // Chosen from the list, though it was to be the next: the lease is this card's now.
    if (this.#ahead?.dataset.item === card.dataset.item) this.#ahead = null;
    this.#slot.replaceChildren(card);
    this.#writeToday();
    card.removeAttribute("aria-busy");
    card.querySelector("[data-focus]").focus({ preventScroll: true });
    this.#markRow();
    if (card.dataset.state === "leased") this.#extend(card, { shown: 1 });
    this.dispatchEvent(new CustomEvent("desk:shown", { bubbles: true, detail: { item: card.dataset.item } }));
  }

  #markRow() {
    const id = this.#card?.dataset.item;
    for (const row of this.querySelectorAll(".queue-row")) {
      if (row.dataset.item === id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  // ---------- leases ----------

  // Says with it when the card has just come before somebody.
  #extend(card, more = {}) {
    return this.#tell(card, card.dataset.extendUrl, more);
  }

  // Asks without extending: news of an item is no sign of anybody's work.
  #ask(card) {
    return this.#tell(card, card.dataset.askUrl);
  }

  async #tell(card, url, more = {}) {
    if (card.hasAttribute("data-recalled")) return;
    const response = await this.#post(url, { token: card.dataset.token, ...more });
    if (!response?.ok) return;
    const { left_ms: leftMs } = await response.json();
    if (leftMs === null) {
      // A card that was decided meanwhile has no lease to lose.
      if (card === this.#ahead) this.#dropAhead();
      else if (card === this.#card && card.dataset.state === "leased") this.#lost();
      return;
    }
    for (const clock of card.querySelectorAll("lease-clock")) clock.set?.(leftMs);
  }

  #keepWorking() {
    const isActive = performance.now() - this.#activeAt < ACTIVE_FOR_MS && !document.hidden;
    if (isActive && this.#card.dataset.state === "leased") this.#extend(this.#card);
    if (isActive && this.#ahead) this.#extend(this.#ahead);
  }

  // A page that was asked for twice in a row has two answers, and the one not shown may have the
  // lease. So a fresh page asks once more; after that a lost lease is lost.
  #lost() {
    if (this.#isLeaving) return;
    const isFresh = performance.now() < FRESH_FOR_MS && !this.#hasAskedAgain;
    this.#hasAskedAgain = true;
    return isFresh ? this.#take(this.#card.dataset.takeUrl) : this.#look();
  }

  // What has become of the open item: the card as it stands now, to look at only.
  async #look() {
    const card = this.#card;
    if (card.dataset.state === "sent" || card.dataset.state === "empty") return;
    card.dataset.state = "look";
    const response = await this.#get(card.dataset.lookUrl);
    if (response?.ok && card === this.#card) this.#show(this.#parse(await response.text()));
  }

  async #take(url) {
    const before = this.#card;
    const response = await this.#post(url, {});
    if (!response?.ok) return;
    if (before.dataset.state === "leased" && before.dataset.takeUrl !== url) this.#release(before);
    this.#show(this.#parse(await response.text()));
    await this.#fetching;
    this.#fetchAhead();
  }

  #release(card) {
    this.#post(card.dataset.releaseUrl, { token: card.dataset.token });
  }

  #dropAhead() {
    this.#ahead = null;
    this.#fetchAhead();
  }

  // The next page may have the lease already, and this one must not fight for it.
  #startLeaving = () => {
    this.#isLeaving = true;
    setTimeout(() => (this.#isLeaving = false), FRESH_FOR_MS); // it may have been a download
  };

  #leave = () => {
    for (const card of [this.#card, this.#ahead]) {
      if (card?.dataset.state !== "leased") continue;
      navigator.sendBeacon(card.dataset.releaseUrl, this.#body({ token: card.dataset.token }));
    }
  };

  // From the back-forward cache: the leases were given back.
  #comeBack = ({ persisted }) => {
    if (persisted) location.reload();
  };

  // ---------- what others do ----------

  #live = ({ detail: { events } }) => {
    const current = this.#card;
    for (const { kind, ids, count } of events) {
      if (kind === "erased") this.#forget(ids, count);
      if (ids.includes(Number(current.dataset.item))) this.#openItemChanged(kind);
      if (this.#ahead && ids.includes(Number(this.#ahead.dataset.item)) && ENDS_IT.has(kind)) this.#dropAhead();
    }
    if (events.some(({ kind }) => MAY_BRING_WORK.has(kind))) this.#moreWork();
  };

  #openItemChanged(kind) {
    if (this.#card.dataset.state === "sent") return;
    if (this.#card.dataset.state !== "leased") this.#look(); // looked at: show how it stands now
    else if (kind === "opened") this.#take(this.#card.dataset.takeUrl); // judged anew
    // News may be late, and the item one's own again since: asking tells.
    else this.#ask(this.#card);
  }

  // What is read beside the open message, here and on the next card: without a new card, which
  // would cost the note that is being written. Only when there were too many to be told of all.
  #forget(ids, count) {
    if (count > ids.length) return this.#readAnew();
    for (const place of [this, this.#ahead].filter(Boolean)) {
      for (const id of ids) {
        for (const shown of place.querySelectorAll(`[data-message="${id}"] :is(.text, .who)`)) shown.textContent = this.dataset.wordErased;
      }
    }
  }

  #readAnew() {
    if (this.#card.dataset.state === "leased") this.#take(this.#card.dataset.takeUrl);
    else this.#look();
    if (!this.#ahead) return;
    this.#release(this.#ahead);
    this.#dropAhead();
  }

  // A page that was away may have little left: its clock then says so, and whoever works extends it.
  #gap = () => {
    if (this.#card.dataset.state === "leased") this.#ask(this.#card);
    if (this.#ahead) this.#ask(this.#ahead);
    this.#moreWork();
  };

  async #moreWork() {
    await this.#fetching; // it may have been answered before the news
    if (this.#isDry) await this.#fetchAhead();
    if (this.#ahead && this.#card.dataset.state === "empty") this.#advance();
  }

  #see = ({ detail: { item } }) => {
    this.#take(this.#card.dataset.takeUrl?.replace(/\d+/, item) ?? `/review/items/${item}/open/`);
  };

  // ---------- keys and clicks ----------

  #key = (event) => {
    this.#wasActive();
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest?.(TYPES_TEXT)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const handled = this.#press(event.key.toLowerCase(), event);
    if (handled) event.preventDefault();
  };

  #press(key, event) {
    if (key === "enter" && !event.target.closest("a, button, input, summary")) return this.#goOn();
    const command = this.#commands[key];
    if (!command) return false;
    const act = this.#own[command];
    if (act) return act(event) ?? true;
    const target = this.#card.querySelector(`[data-command="${command}"]`);
    if (!target) return false;
    if (target.type === "radio") this.#choose(target);
    // A key that is held down must not decide a second message.
    else if (target.matches("[data-decide] button") && !event.repeat) this.#act(target);
    else if (!target.form) target.click();
    return true;
  }

  // Commands that are more than a press on the element that has them.
  #own = {
    undo: () => this.#undo(),
    note: () => this.#focusField(this.#card.querySelector("[data-note]")),
    search: () => this.#focusField(this.querySelector("[data-search]")),
    down: () => this.#move(1),
    up: () => this.#move(-1),
    reveal: (event) => this.#card.querySelector("reveal-veil")?.press(event) ?? false,
  };

  // What it is, or why. The same key again takes the choice back, unless an action waits for it.
  #choose(radio) {
    radio.checked = !radio.checked;
    this.#chosen(radio);
  }

  #chosen(radio) {
    const completes = radio.checked && radio.name === "label" && this.#pendingAction?.form === radio.form;
    if (completes) this.#act(this.#pendingAction);
  }

  #focusField(field) {
    field?.focus();
    return Boolean(field);
  }

  #move(step) {
    const rows = [...this.querySelectorAll(".queue-row")];
    if (!rows.length) return;
    const from = rows.indexOf(document.activeElement.closest?.(".queue-row"));
    const at = from < 0 ? rows.findIndex((row) => row.hasAttribute("aria-current")) : from;
    rows[Math.min(Math.max(at + step, 0), rows.length - 1)].focus();
  }

  #goOn() {
    const isOver = this.#card.dataset.state !== "leased" && this.#card.dataset.state !== "sent";
    if (isOver) this.#advance();
    return isOver;
  }

  #click = (event) => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const row = event.target.closest(".queue-row");
    const goesOn = event.target.closest("[data-go-on]");
    const takes = event.target.closest("[data-take]");
    const more = event.target.closest("[data-conversation] [data-more]");
    if (event.target.closest("[data-toggle-list]") || row) this.toggleAttribute("data-list");
    if (!row && !goesOn && !takes && !more) return;
    event.preventDefault();
    if (more) return this.#showMore(more);
    if (goesOn) this.#advance();
    else this.#take(takes ? this.#card.dataset.takeUrl : `${row.getAttribute("href")}open/`);
  };

  async #showMore(link) {
    const response = await this.#get(link.dataset.more);
    if (!response?.ok) return;
    const place = link.closest("[data-conversation]");
    const hadFocus = place.contains(document.activeElement);
    const template = document.createElement("template");
    template.innerHTML = await response.text();
    const fresh = template.content.firstElementChild;
    place.replaceWith(fresh);
    fresh.querySelector("[data-open]").scrollIntoView({ block: "nearest" });
    if (hadFocus) (fresh.querySelector("[data-more]") ?? this.#card.querySelector("[data-focus]")).focus({ preventScroll: true });
  }

  #change = (event) => {
    if (event.target.matches("[data-submit-on-change]")) event.target.form.submit();
    if (event.target.matches("[data-decide] [type=radio]")) this.#chosen(event.target);
  };

  #wasActive = () => {
    this.#activeAt = performance.now();
  };

  // ---------- the line ----------

  #body(values) {
    const body = new FormData();
    body.append("csrfmiddlewaretoken", this.dataset.csrf);
    for (const [name, value] of Object.entries(values)) for (const one of [value].flat()) body.append(name, one);
    return body;
  }

  #post(url, values, headers = {}) {
    return this.#fetch(url, { method: "POST", body: this.#body(values), headers });
  }

  #get(url) {
    return this.#fetch(url, {});
  }

  async #fetch(url, options) {
    try {
      const response = await fetch(url, options);
      if (response.redirected && response.url.includes("/sign-in/")) location.assign(response.url);
      return response;
    } catch (error) {
      if (error instanceof TypeError) return null; // the network; the live link says so
      throw error;
    }
  }

  #parse(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.querySelector("[data-card]");
  }

  #toast(detail) {
    document.dispatchEvent(new CustomEvent("toast", { detail }));
  }
}

function todayOn(element) {
  const figure = element.querySelector("[data-today]");
  return figure ? Number(figure.textContent.replace(/\D/g, "")) : null;
}

customElements.define("review-desk", ReviewDesk);
