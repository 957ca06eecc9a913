// The graph on its canvas.

const READABLE = 0.3; // the scale from which on texts are drawn
const TINY = 0.06; // the scale below which a box is a spot of colour

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "text", "faint", "arrow", "focus", "found"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  colours.dark = document.documentElement.dataset.theme === "dark";
}

let waiting = false;

function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint();
  });
}

function paint() {
  const {scale, x, y} = state, ratio = window.devicePixelRatio || 1;
  const {width, height} = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.page;
  pen.fillRect(0, 0, width, height);
  pen.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
  pen.font = FONT;
  pen.textAlign = "center";
  const view = [-x / scale, -y / scale, (width - x) / scale, (height - y) / scale];
  const marked = shown.byKey.get(state.hovered) ?? null;
  const lit = marked && new Set([...reached(marked, "sources"), ...reached(marked, "users")]);
  paintArrows(view, scale, lit);
  for (const [i, [rx, ry]] of shown.places.references) {
    if (scale >= READABLE && inside(view, rx, ry, shown.units[i].width)) paintReference(shown.units[i], rx, ry, lit);
  }
  const hits = new Set(state.hits.map((i) => shown.ofNode[i]));
  let drawn = 0;
  for (const unit of shown.units) {
    if (!inside(view, unit.x, unit.y, unit.width)) continue;
    drawn++;
    paintUnit(unit, scale, lit, hits.has(unit));
  }
  pen.globalAlpha = 1;
  canvas.dataset.drawn = drawn;
}

function inside([left, top, right, bottom], x, y, width) {
  return x + width / 2 >= left && x - width / 2 <= right && y + HEIGHT >= top && y - HEIGHT <= bottom;
}

function paintArrows(view, scale, lit) {
  const plain = new Path2D(), bright = new Path2D(), back = new Path2D();
  for (const line of shown.places.lines) {
    const [left, top, right, bottom] = line.box;
    if (right < view[0] || left > view[2] || bottom + HEIGHT < view[1] || top - HEIGHT > view[3]) continue;
    const path = lit && line.ends.every((end) => lit.has(end)) ? bright : line.back ? back : plain;
    if (line.back) curve(path, line.points);
    else if (scale < READABLE) line.points.forEach(([px, py], k) => (k ? path.lineTo(px, py) : path.moveTo(px, py)));
    else arrow(path, line.points);
  }
  pen.strokeStyle = colours.arrow;
  pen.lineWidth = Math.max(1, 0.5 / scale);
  pen.globalAlpha = lit ? 0.2 : 1;
  pen.stroke(plain);
  pen.setLineDash([5, 4]);
  pen.stroke(back);
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  pen.lineWidth *= 1.8;
  pen.stroke(bright);
}

// A smooth line from the bottom of one box to the top of the other; it crosses the layers between straight down.
function arrow(path, points) {
  const half = HEIGHT / 2;
  let [x, y] = points[0];
  path.moveTo(x, y + half);
  for (let k = 1; k < points.length; k++) {
    const [x2, y2] = points[k], middle = (y + y2) / 2;
    path.bezierCurveTo(x, middle, x2, middle, x2, y2 - half);
    if (k < points.length - 1) path.lineTo(x2, y2 + half);
    [x, y] = [x2, y2];
  }
  tip(path, x, y - half, 0);
}

function curve(path, [[x, y], [side, middle], [x2, y2]]) {
  path.moveTo(x, y);
  path.bezierCurveTo(side, y, side, y2, x2, y2);
  tip(path, x2, y2, Math.PI / 2);
}

// Two strokes that make the end of a line the tip of an arrow, which points down, or turned as far.
function tip(path, x, y, turned) {
  for (const side of [-1, 1]) {
    const angle = turned + side * 0.45 - Math.PI / 2;
    path.moveTo(x, y);
    path.lineTo(x + 7 * Math.cos(angle), y + 7 * Math.sin(angle));
  }
}

function paintUnit(unit, scale, lit, hit) {
  const {x, y, width} = unit, [fill, border] = kinds[unit.kind].colours;
  const selected = unit.key === state.selected;
  pen.globalAlpha = lit && !lit.has(unit) ? 0.18 : 1;
  const left = x - width / 2, top = y - HEIGHT / 2;
  if (scale < TINY) {
    pen.fillStyle = border;
    pen.fillRect(left, top, Math.max(width, 3 / scale), Math.max(HEIGHT, 1.5 / scale));
  } else {
    if (unit.key[0] === "g") rounded(left + 4, top + 4, width, HEIGHT, 6, fill, border, 1);
    rounded(left, top, width, HEIGHT, 6, fill, border, unit.result ? 2.5 : 1);
  }
  if (hit || selected) {
    pen.strokeStyle = selected ? colours.focus : colours.found;
    pen.lineWidth = Math.max(3, 2 / scale);
    pen.strokeRect(left - 4, top - 4, width + 8, HEIGHT + 8);
  }
  if (scale < READABLE) return;
  pen.fillStyle = colours.text;
  pen.fillText(unit.first, x, y - 3);
  pen.fillStyle = colours.faint;
  pen.fillText(unit.second, x, y + 13);
}

// The name of a box that is far away.
function paintReference(unit, x, y, lit) {
  const [fill, border] = kinds[unit.kind].colours, width = textWidth(unit.name);
  pen.globalAlpha = lit && !lit.has(unit) ? 0.18 : 1;
  pen.setLineDash([3, 2]);
  rounded(x - width / 2, y + HEIGHT / 2 - LABEL, width, LABEL, 9, fill, border, 1);
  pen.setLineDash([]);
  pen.fillStyle = colours.text;
  pen.fillText(unit.name, x, y + HEIGHT / 2 - 5);
}

// In the dark a box is filled with a shade of its border.
function rounded(x, y, width, height, radius, fill, border, thickness) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fillStyle = colours.page;
  if (colours.dark) pen.fill();
  pen.fillStyle = colours.dark ? `${border}59` : fill;
  pen.fill();
  pen.strokeStyle = border;
  pen.lineWidth = thickness;
  pen.stroke();
}
