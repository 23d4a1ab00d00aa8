// A form marked by id `publish`: Ctrl+Enter sends it, and a page with unsent changes asks before it
// is left.
const form = document.getElementById("publish");
let isChanged = false;

form?.addEventListener("change", () => (isChanged = true));
form?.addEventListener("submit", () => (isChanged = false));
addEventListener("beforeunload", (event) => isChanged && event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const button = form?.querySelector('button[data-level="primary"]');
  if (!button) return;
  event.preventDefault();
  form.requestSubmit(button);
});
