// What a person does: moving, keys, putting together and opening, the bar; and how the page begins.

const SMALLEST = 0.001, LARGEST = 4; // scales
const MARGIN = 30; // about the graph when all of it is shown
const LARGE = 400; // boxes from which on the nodes of a line are put together at first
const EASY = 0.5, FIRST = 0.75; // the scale below which texts are too small to begin with; the one to begin with then

// ---- moving

function zoom(factor, x, y) {
  const {width, height} = canvas.getBoundingClientRect();
  const [px, py] = [x ?? width / 2, y ?? height / 2];
  const scale = Math.min(LARGEST, Math.max(SMALLEST, state.scale * factor));
  state.x = px - ((px - state.x) * scale) / state.scale;
  state.y = py - ((py - state.y) * scale) / state.scale;
  state.scale = scale;
  draw();
}

function fit() {
  const {width, height} = canvas.getBoundingClientRect();
  const room = Math.min((width - 2 * MARGIN) / shown.places.width, (height - 2 * MARGIN) / shown.places.height);
  state.scale = Math.max(SMALLEST, Math.min(1, room));
  state.x = (width - shown.places.width * state.scale) / 2;
  state.y = (height - shown.places.height * state.scale) / 2;
  draw();
}

// The whole graph where its texts can be read, else its top.
function begin() {
  fit();
  if (state.scale >= EASY) return;
  const first = shown.units.reduce((best, unit) => (unit.y < best.y ? unit : best));
  const frame = shown.frames.find(({left, width}) => first.frame !== null && Math.abs(first.x - left - width / 2) < width / 2);
  const [left, wide] = frame ? [frame.left, frame.width] : [first.x - first.width / 2, first.width];
  state.scale = FIRST;
  state.x = Math.max(MARGIN, (canvas.getBoundingClientRect().width - wide * FIRST) / 2) - left * FIRST;
  state.y = MARGIN;
  draw();
}

function centre(unit) {
  const {width, height} = canvas.getBoundingClientRect();
  state.scale = Math.max(state.scale, 0.8);
  state.x = width / 2 - unit.x * state.scale;
  state.y = height / 2 - unit.y * state.scale;
  draw();
}

// The unit at a point of the window, or the one that a reference there is to, or the frame whose title is there.
function unitAt(clientX, clientY) {
  const {left, top} = canvas.getBoundingClientRect();
  const x = (clientX - left - state.x) / state.scale, y = (clientY - top - state.y) / state.scale;
  const at = shown.units.find((u) => Math.abs(x - u.x) <= u.width / 2 && Math.abs(y - u.y) <= HEIGHT / 2);
  if (at) return at;
  const referred = shown.places.references.find(([i, [rx, ry]]) =>
    Math.abs(x - rx) <= textWidth(shown.units[i].name) / 2 && Math.abs(y - ry) <= LABEL / 2);
  if (referred) return shown.units[referred[0]];
  return shown.frames.find(({left, top, width}) => x >= left && x <= left + width && y >= top && y <= top + TITLE) ?? null;
}

let drag = null;

canvas.addEventListener("pointerdown", (event) => {
  drag = {x: event.clientX, y: event.clientY, moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (drag) {
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    state.x += dx;
    state.y += dy;
    drag = {x: event.clientX, y: event.clientY, moved: true};
    draw();
    return;
  }
  const key = unitAt(event.clientX, event.clientY)?.key ?? null;
  if (key !== state.hovered) {
    hover(key);
  }
});
canvas.addEventListener("pointerup", (event) => {
  const unit = drag && !drag.moved ? unitAt(event.clientX, event.clientY) : undefined;
  drag = null;
  if (unit !== undefined) select(unit?.key ?? null);
});
canvas.addEventListener("pointercancel", () => (drag = null));
canvas.addEventListener("pointerleave", () => hover(null));

function hover(key) {
  state.hovered = key;
  canvas.style.cursor = key ? "pointer" : "";
  markLines();
  draw();
}

canvas.addEventListener("dblclick", (event) => {
  const unit = unitAt(event.clientX, event.clientY);
  if (unit) toggle(unit.key[0] === "g" ? +unit.key.slice(1) : nodes[unit.nodes[0]].group);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const {left, top} = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - left, event.clientY - top);
}, {passive: false});

// ---- keys

canvas.addEventListener("keydown", (event) => {
  const unit = shown.byKey.get(state.selected), key = event.key;
  const steps = {ArrowUp: "sources", ArrowDown: "users"}, sides = {ArrowLeft: -1, ArrowRight: 1};
  if (key === "+" || key === "=") zoom(1.3);
  else if (key === "-") zoom(1 / 1.3);
  else if (key === "0" || key === "f") fit();
  else if (key === "Escape") {
    state.line = null;
    select(null);
  }
  else if (key === "Enter" && unit?.key[0] === "g") toggle(+unit.key.slice(1));
  else if (key === "Backspace" && unit?.key[0] === "n") toggle(nodes[unit.nodes[0]].group);
  else if (key in steps) go(unit ? [...unit[steps[key]]][0] : shown.units[0]);
  else if (key in sides) go(unit ? beside(unit, sides[key]) : shown.units[0]);
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});

function go(unit) {
  if (!unit) return;
  select(unit.key);
  centre(unit);
}

// The neighbour in the same layer.
function beside(unit, step) {
  const row = shown.units.filter((u) => u.y === unit.y && u.frame === unit.frame).sort((a, b) => a.x - b.x);
  return row[row.indexOf(unit) + step];
}

// ---- putting together and opening

function toggle(group) {
  if (group === null) return;
  if (!state.closed.delete(group)) state.closed.add(group);
  rearrange(shown.byKey.get(state.selected)?.nodes[0]);
}

// Arranges anew; the unit of a node stays where it was in the window.
function rearrange(node = null) {
  const before = node === null ? null : shown.ofNode[node];
  arrange();
  const after = node === null ? null : shown.ofNode[node];
  if (before && after) {
    state.x += (before.x - after.x) * state.scale;
    state.y += (before.y - after.y) * state.scale;
  } else {
    fit();
  }
  if (state.selected && !isShown(state.selected)) state.selected = after?.key ?? null;
  listGroups();
  showPanel();
  markLines();
  draw();
}

// Opens what a node is in, and its kind.
function reveal(i) {
  const changed = state.hidden.delete(nodes[i].kind);
  let opened = false;
  for (let g = nodes[i].group; g !== null; g = groups[g].parent) opened = state.closed.delete(g) || opened;
  if (!changed && !opened) return;
  for (const box of document.querySelectorAll("#legend input")) box.checked = !state.hidden.has(box.name);
  rearrange();
}

function goToNode(i) {
  reveal(i);
  go(shown.ofNode[i]);
}

function isShown(key) {
  return shown.byKey.has(key) || shown.frames.some((frame) => frame.key === key);
}

function select(key) {
  state.selected = key;
  showPanel();
  markLines();
  draw();
}

// Keeps the nodes of a line of the user's source in sight, or lets go of them.
function keepLine(k) {
  state.line = state.line === k ? null : k;
  state.selected = null;
  const lit = shown.units.filter((unit) => unit.nodes.some((i) => nodes[i].at === state.line));
  if (lit.length && !lit.some(inWindow)) centre(lit[0]);
  showPanel();
  markLines();
  draw();
}

function inWindow(unit) {
  const {width, height} = canvas.getBoundingClientRect();
  const x = state.x + unit.x * state.scale, y = state.y + unit.y * state.scale;
  return x > 0 && x < width && y > 0 && y < height;
}

// ---- the bar

const legend = document.getElementById("legend");
for (const [kind, {title}] of Object.entries(kinds)) {
  if (!nodes.some((node) => node.kind === kind)) continue;
  const box = make("input", {type: "checkbox", name: kind, checked: "", onchange: () => {
    if (box.checked) state.hidden.delete(kind);
    else state.hidden.add(kind);
    rearrange();
  }});
  legend.append(make("label", {}, box, swatch(kind), title));
}

const buttons = {
  closer: () => zoom(1 / 1.3),
  nearer: () => zoom(1.3),
  fit,
  collapse: () => {
    closeLines();
    rearrange();
  },
  open: () => {
    state.closed.clear();
    rearrange();
  },
  time: () => {
    state.timed = !state.timed;
    document.getElementById("time").setAttribute("aria-pressed", String(state.timed));
    draw();
  },
  theme: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
};
for (const [id, action] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", action);
document.getElementById("time").hidden = !data.timed;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColours();
  draw();
}

// ---- start

if (nodes.length > LARGE) closeLines();
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
arrange();
if (shown.units.length > LARGE) {
  closeLines(["function"]);
  arrange();
}
listSource();
listGroups();
showPanel();
begin();
new ResizeObserver(draw).observe(canvas);

// For whoever drives the page: where the box of a node, or of the group that it is in, lies in the window.
window.placeOf = (i) => {
  const {left, top} = canvas.getBoundingClientRect(), unit = shown.ofNode[i];
  return unit && [left + state.x + unit.x * state.scale, top + state.y + unit.y * state.scale];
};
