// What all charts share: colours of the theme, numbers as the console writes them, names at lines.
export const numbers = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });

function short(value) {
  return numbers.format(value < 99.95 ? value : Math.round(value));
}

// A canvas takes no light-dark() and no var(): ask a probe element for the colour it computes.
export function palette(element) {
  const probe = document.createElement("i");
  probe.hidden = true;
  element.append(probe);
  const known = new Map();
  for (const name of ["--text-1", "--text-2", "--text-3", "--chart-grid", "--rank-1", "--rank-2", "--rank-3", "--series-1", "--series-4", "--chart-fill", "--surface-1", "--down-ink"]) {
    probe.style.color = `var(${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => known.get(name);
}

// Each line's name and value beside its end, or the values under the crosshair; never overlapping.
export function labelLines(plot, colour) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  const last = plot.data[0].length - 1;
  const at = plot.cursor.idx ?? last;
  const labels = [];
  plot.series.forEach((series, index) => {
    if (!index) return;
    const values = plot.data[index];
    let shown = at;
    while (at === last && shown > 0 && values[shown] == null) shown -= 1;
    if (values[shown] == null) return;
    labels.push({ y: plot.valToPos(values[shown], "y", true), name: series.label, value: series.say?.(values[shown]) ?? `${short(values[shown])}\u00a0${series.unit}`, colour: series.stroke() });
  });
  spread(labels, 14 * ratio, bbox.top + bbox.height);
  ctx.save();
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const x = bbox.left + bbox.width + 8 * ratio;
  for (const label of labels) {
    ctx.fillStyle = label.colour;
    ctx.fillRect(x, label.y - ratio, 8 * ratio, 2 * ratio);
    ctx.font = `600 ${11 * ratio}px system-ui`;
    ctx.fillStyle = colour("--text-1");
    ctx.fillText(label.name, x + 12 * ratio, label.y);
    const width = ctx.measureText(label.name).width;
    ctx.font = `${11 * ratio}px system-ui`;
    ctx.fillStyle = colour("--text-2");
    ctx.fillText(label.value, x + 16 * ratio + width, label.y);
  }
  ctx.restore();
}

function spread(labels, gap, bottom) {
  labels.sort((a, b) => b.y - a.y);
  let limit = bottom;
  for (const label of labels) {
    label.y = Math.min(label.y, limit);
    limit = label.y - gap;
  }
}
