// Out-of-band fragments that say the same as before are left alone: no repaint, no lost selection,
// and no live region that speaks every second.
const shown = new WeakMap();

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  const { innerHTML } = fragment instanceof Element ? fragment : fragment.firstElementChild;
  if ((shown.get(target) ?? target.innerHTML) === innerHTML) event.detail.shouldSwap = false;
  shown.set(target, innerHTML);
});
