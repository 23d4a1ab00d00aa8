// Out-of-band fragments that say the same as before are left alone: no repaint, no lost selection,
// and no live region that speaks every second.
const shown = new WeakMap();

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  const html = fragment.firstElementChild?.innerHTML ?? fragment.textContent;
  if (shown.get(target) === html) event.detail.shouldSwap = false;
  else shown.set(target, html);
});
