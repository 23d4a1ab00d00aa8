// Keeps every <time data-since datetime="…"> on the page counting. Import it once.
const pad = (n) => String(n).padStart(2, "0");

export function duration(seconds) {
  const s = Math.max(Math.floor(seconds), 0);
  const hours = Math.floor(s / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)}\u00a0d`;
  const minutes = Math.floor(s / 60) % 60;
  return hours ? `${hours}:${pad(minutes)}:${pad(s % 60)}` : `${minutes}:${pad(s % 60)}`;
}

function tick() {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[data-since]")) {
    const text = duration((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);
