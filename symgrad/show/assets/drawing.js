// The graph on its canvas.

const READABLE = 0.3; // the scale from which on texts are drawn
const TINY = 0.06; // the scale below which a box is a spot of colour

let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "text", "faint", "arrow", "focus", "found", "hot"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
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
  const lit = litUnits();
  for (const frame of shown.frames) paintFrame(frame, view, scale);
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
  canvas.dataset.lit = lit ? lit.size : "";
}

// What stands out: all that the box under the pointer is made of and that is made of it, what a frame holds, or the nodes
// of a line of the user's; null where all do.
function litUnits() {
  const unit = shown.byKey.get(state.hovered);
  if (unit) return new Set([...reached(unit, "sources"), ...reached(unit, "users")]);
  const frame = shown.frames.find(({key}) => key === state.hovered), line = state.hoveredLine ?? state.line;
  const wanted = frame ? frame.nodes : line !== null ? nodesAt[line] : null;
  return wanted && new Set(wanted.map((i) => shown.ofNode[i]).filter(Boolean));
}

function inside([left, top, right, bottom], x, y, width) {
  return x + width / 2 >= left && x - width / 2 <= right && y + HEIGHT >= top && y - HEIGHT <= bottom;
}

function paintArrows(view, scale, lit) {
  const plain = new Path2D(), bright = new Path2D(), back = new Path2D();
  for (const line of shown.places.lines) {
    const [left, top, right, bottom] = line.box;
    if (right < view[0] || left > view[2] || bottom + HEIGHT < view[1] || top - HEIGHT > view[3]) continue;
    const isLit = lit?.has(line.to) && line.from.some((unit) => lit.has(unit));
    const path = isLit ? bright : line.back ? back : plain;
    if (line.back) curve(path, line.points);
    else if (scale < READABLE) straight(path, line.points);
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

// A line from the bottom of one box to the top of the other; it crosses the layers between straight down.
function straight(path, [[x, y], ...rest]) {
  path.moveTo(x, y);
  for (const [x2, top, bottom] of rest) {
    path.lineTo(x2, top);
    path.lineTo(x2, bottom);
  }
}

function arrow(path, [[x, y], ...rest]) {
  path.moveTo(x, y);
  for (const [x2, top, bottom] of rest) {
    const middle = (y + top) / 2;
    path.bezierCurveTo(x, middle, x2, middle, x2, top);
    if (bottom > top) path.lineTo(x2, bottom);
    [x, y] = [x2, bottom];
  }
  tip(path, x, y, 0);
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

// A frame around the body of a loop or of a branch, with the user's line as its title.
function paintFrame(frame, view, scale) {
  const {left, top, width, height} = frame, [fill, border] = kinds[groups[frame.group].shade].colours;
  if (left > view[2] || left + width < view[0] || top > view[3] || top + height < view[1]) return;
  rounded(left, top, width, height, 10, `${border}12`, border, frame.key === state.selected ? 3 : 1);
  if (frame.key === state.selected) {
    pen.strokeStyle = colours.focus;
    pen.stroke();
  }
  if (scale < READABLE) return;
  const [title, about] = titleOf(frame.group);
  pen.textAlign = "left";
  pen.font = BOLD;
  pen.fillStyle = colours.text;
  pen.fillText(title, left + PAD, top + TITLE - 9);
  pen.font = FONT;
  pen.fillStyle = colours.faint;
  if (about) pen.fillText(about, left + PAD + (title.length + 2) * letter, top + TITLE - 9);
  pen.textAlign = "center";
}

function paintUnit(unit, scale, lit, hit) {
  const {x, y, width} = unit, [fill, border] = kinds[unit.kind].colours;
  const selected = unit.key === state.selected;
  pen.globalAlpha = lit && !lit.has(unit) ? 0.18 : 1;
  const left = x - width / 2, top = y - HEIGHT / 2;
  if (scale < TINY) {
    pen.fillStyle = state.timed ? heat(unit.share) : border;
    pen.fillRect(left, top, Math.max(width, 3 / scale), Math.max(HEIGHT, 1.5 / scale));
  } else {
    if (unit.key[0] === "g") box(left + 4, top + 4, unit, border, 1);
    box(left, top, unit, border, unit.result ? 2.5 : 1);
  }
  if (hit || selected) {
    pen.strokeStyle = selected ? colours.focus : colours.found;
    pen.lineWidth = Math.max(3, 2 / scale);
    pen.strokeRect(left - 4, top - 4, width + 8, HEIGHT + 8);
  }
  if (scale < READABLE) return;
  pen.fillStyle = colours.text;
  pen.fillText(unit.first, x, y - 3);
  if (!state.timed) pen.fillStyle = colours.faint;
  pen.fillText(unit.second, x, y + 13);
}

// The name of a box that is far away.
function paintReference(unit, x, y, lit) {
  const [fill, border] = kinds[unit.kind].colours, width = textWidth(unit.name);
  pen.globalAlpha = lit && !lit.has(unit) ? 0.18 : 1;
  pen.setLineDash([3, 2]);
  rounded(x - width / 2, y - LABEL / 2, width, LABEL, 9, shade(fill, border), border, 1);
  pen.setLineDash([]);
  pen.fillStyle = colours.text;
  pen.fillText(unit.name, x, y + 4);
}

// A box in the colour of its kind, or of its share of the time.
function box(left, top, unit, border, thickness) {
  const [fill] = kinds[unit.kind].colours;
  rounded(left, top, unit.width, HEIGHT, 6, state.timed ? heat(unit.share) : shade(fill, border), border, thickness);
}

// In the dark a box is filled with a shade of its border.
function shade(fill, border) {
  return colours.dark ? `${border}59` : fill;
}

// The colour of a share of the time, on that of the page.
function heat(share) {
  const part = Math.min(1, (share ?? 0) / shown.most);
  return colours.hot + Math.round(255 * part).toString(16).padStart(2, "0");
}

function rounded(x, y, width, height, radius, fill, border, thickness) {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fillStyle = colours.page;
  pen.fill();
  pen.fillStyle = fill;
  pen.fill();
  pen.strokeStyle = border;
  pen.lineWidth = thickness;
  pen.stroke();
}
