// The page of a graph: a canvas that shows it, an outline and a search on its left, and what is selected on its right.
// What comes from the user's program is put into the page as text only.

"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const {nodes, groups, kinds} = data;
const HEIGHT = 40, LABEL = 18, ROOM = 18, MARGIN = 30; // of a box; of a reference; beside a text; about the graph
const READABLE = 0.3; // the scale from which on texts are drawn
const TINY = 0.06, SMALLEST = 0.001, LARGEST = 4; // the scale below which a box is a spot of colour; the limits of zoom
const LARGE = 250; // boxes from which on the nodes of a line are put together at first
const MOST_RESULTS = 200, MOST_MEMBERS = 60;
const FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

const canvas = document.getElementById("picture");
const pen = canvas.getContext("2d");

const state = {
  closed: new Set(), // groups whose nodes are put together
  hidden: new Set(), // kinds that are not shown
  selected: null, // a unit's key, see below
  hovered: null,
  hits: [], // nodes that were searched for
  scale: 1, x: 0, y: 0, // of the picture on the canvas
};

// ---- the nodes, groups and users

const users = nodes.map(() => []);
nodes.forEach((node, i) => {
  for (const source of new Set(node.sources)) users[source].push(i);
});
const members = groups.map(() => []); // all nodes below a group
nodes.forEach((node, i) => {
  for (let g = node.group; g !== null; g = groups[g].parent) members[g].push(i);
});

// ---- what is shown: units, each a node or a closed group; its key is "n3" or "g1"

let shown = {units: [], byKey: new Map(), ofNode: [], places: null};

function unitKey(i) {
  let key = `n${i}`;
  for (let g = nodes[i].group; g !== null; g = groups[g].parent) {
    if (state.closed.has(g) && members[g].length > 1) key = `g${g}`;
  }
  return key;
}

// Puts nodes together, and lays out what results.
function arrange() {
  const byKey = new Map(), ofNode = [];
  nodes.forEach((node, i) => {
    if (state.hidden.has(node.kind)) return;
    const key = unitKey(i);
    if (!byKey.has(key)) byKey.set(key, {key, index: byKey.size, nodes: [], sources: new Set(), users: new Set()});
    byKey.get(key).nodes.push(i);
    ofNode[i] = byKey.get(key);
  });
  const units = [...byKey.values()];
  for (const unit of units) {
    for (const i of unit.nodes) {
      for (const source of nodes[i].sources) {
        const other = ofNode[source];
        if (other && other !== unit) {
          unit.sources.add(other);
          other.users.add(unit);
        }
      }
    }
  }
  units.forEach(describe);
  const forward = [], back = []; // an arrow is back where a group stands for a step of a loop, and the next one
  for (const unit of units) for (const source of unit.sources) {
    (source.index < unit.index ? forward : back).push([source.index, unit.index]);
  }
  const places = layout(units.map((u) => u.width), HEIGHT, forward, units.map((u) => textWidth(u.name)));
  units.forEach((unit, i) => ([unit.x, unit.y] = places.centres[i]));
  places.lines = places.paths.map((points, k) => ({points, ends: forward[k].map((i) => units[i]), box: extent(points)}));
  for (const [i, j] of back) places.lines.push(backward(units[i], units[j]));
  shown = {units, byKey, ofNode, places};
  canvas.dataset.units = units.length;
}

// The texts of a unit.
function describe(unit) {
  if (unit.key[0] === "n") {
    const node = nodes[unit.nodes[0]];
    Object.assign(unit, {name: node.name, first: node.formula, second: node.type, kind: node.kind, result: node.result});
  } else {
    const group = groups[+unit.key.slice(1)], node = nodes[unit.nodes[0]];
    const place = group.line ? `${group.name}  ${group.line}` : group.name;
    Object.assign(unit, {name: group.name, first: shortened(place), second: `${unit.nodes.length} operations`,
      kind: node.kind, result: unit.nodes.some((i) => nodes[i].result)});
  }
  unit.width = Math.max(textWidth(unit.first), textWidth(unit.second));
}

function extent(points) {
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

function backward(from, to) {
  const side = Math.max(from.x + from.width / 2, to.x + to.width / 2) + 30;
  const points = [[from.x + from.width / 2, from.y], [side, (from.y + to.y) / 2], [to.x + to.width / 2, to.y]];
  return {points, ends: [from, to], back: true, box: extent(points)};
}

const letter = (() => {
  pen.font = FONT;
  return pen.measureText("0").width;
})();

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\u{1f300}-\u{1faff}]/gu; // two columns

function textWidth(text) {
  return (text.length + (text.match(WIDE)?.length ?? 0)) * letter + ROOM;
}

function shortened(text) {
  return text.length <= 48 ? text : `${text.slice(0, 45)}...`;
}

// All that a unit is made of, or that is made of it.
function reached(unit, side) {
  const found = new Set([unit]), stack = [unit];
  while (stack.length) {
    for (const other of stack.pop()[side]) {
      if (!found.has(other)) {
        found.add(other);
        stack.push(other);
      }
    }
  }
  return found;
}

// ---- drawing

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

function centre(unit) {
  const {width, height} = canvas.getBoundingClientRect();
  state.scale = Math.max(state.scale, 0.8);
  state.x = width / 2 - unit.x * state.scale;
  state.y = height / 2 - unit.y * state.scale;
  draw();
}

// The unit at a point of the window, or the one that a reference there is to.
function unitAt(clientX, clientY) {
  const {left, top} = canvas.getBoundingClientRect();
  const x = (clientX - left - state.x) / state.scale, y = (clientY - top - state.y) / state.scale;
  const at = shown.units.find((u) => Math.abs(x - u.x) <= u.width / 2 && Math.abs(y - u.y) <= HEIGHT / 2);
  if (at) return at;
  const referred = shown.places.references.find(([i, [rx, ry]]) =>
    Math.abs(x - rx) <= textWidth(shown.units[i].name) / 2 && y > ry + HEIGHT / 2 - LABEL && y < ry + HEIGHT / 2);
  return referred ? shown.units[referred[0]] : null;
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
    state.hovered = key;
    canvas.style.cursor = key ? "pointer" : "";
    draw();
  }
});
canvas.addEventListener("pointerup", (event) => {
  const unit = drag && !drag.moved ? unitAt(event.clientX, event.clientY) : undefined;
  drag = null;
  if (unit !== undefined) select(unit?.key ?? null);
});
canvas.addEventListener("pointercancel", () => (drag = null));
canvas.addEventListener("pointerleave", () => {
  state.hovered = null;
  draw();
});
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
  else if (key === "Escape") select(null);
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
  const row = shown.units.filter((u) => u.y === unit.y).sort((a, b) => a.x - b.x);
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
  if (state.selected && !shown.byKey.has(state.selected)) state.selected = after?.key ?? null;
  listGroups();
  showPanel();
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

function select(key) {
  state.selected = key;
  showPanel();
  draw();
}

// ---- parts of the page

// An element with attributes and children; texts become text, never markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function link(i) {
  return make("button", {class: "link", "data-node": i, onclick: () => goToNode(i)}, nodes[i].name);
}

// A square in the colours of a kind.
function swatch(kind) {
  const element = make("span", {class: "key", title: kinds[kind].title});
  [element.style.background, element.style.borderColor] = kinds[kind].colours;
  return element;
}

// ---- the panel

const panel = document.getElementById("panel");

function showPanel() {
  const unit = shown.byKey.get(state.selected);
  if (!unit) panel.replaceChildren(...aboutGraph());
  else if (unit.key[0] === "g") panel.replaceChildren(...aboutGroup(+unit.key.slice(1)));
  else panel.replaceChildren(...aboutNode(unit.nodes[0]));
}

function entry(title, ...content) {
  return content.every((x) => x === null || x === "") ? [] : [make("dt", {}, title), make("dd", {}, ...content)];
}

function code(text) {
  return text ? make("code", {}, text) : null;
}

function aboutGraph() {
  const counts = Object.keys(kinds).map((kind) => [kind, nodes.filter((node) => node.kind === kind).length]);
  return [
    make("h2", {}, data.name),
    make("p", {}, data.summary),
    make("dl", {}, ...counts.filter(([, count]) => count).flatMap(([kind, count]) => entry(kinds[kind].title, String(count))),
      ...entry("results", ...nodes.flatMap((node, i) => (node.result ? [link(i)] : [])))),
  ];
}

function aboutGroup(g) {
  const group = groups[g], inside = members[g];
  return [
    make("h2", {}, group.name),
    make("p", {class: "kind"}, swatch(group.shade), kinds[group.shade].title),
    make("button", {onclick: () => toggle(g)}, state.closed.has(g) ? "Open" : "Put together"),
    make("dl", {},
      ...entry("line", code(group.line)),
      ...entry(`${inside.length} operations`, ...inside.slice(0, MOST_MEMBERS).map(link),
        inside.length > MOST_MEMBERS ? `and ${inside.length - MOST_MEMBERS} more` : null)),
  ];
}

function aboutNode(i) {
  const node = nodes[i], derived = node.of;
  const inputs = node.inputs.map((x) => (typeof x === "number" ? link(x) : make("code", {}, x)));
  return [
    make("h2", {}, node.name),
    make("p", {class: "kind"}, swatch(node.kind), kinds[node.kind].title, node.result ? ", a result" : ""),
    make("dl", {},
      ...entry("operator", code(node.operator)),
      ...entry("formula", code(node.formula === node.name ? "" : node.formula)),
      ...entry("type", code(node.type)),
      ...entry("value", code(node.value)),
      ...entry(node.again ? "computes again" : "rule", derived && make("span", {}, derived.text, " "),
        derived?.node != null ? link(derived.node) : null),
      ...entry("your line", node.place ? make("div", {}, node.place) : null, code(node.line)),
      ...entry("generated line", code(node.code)),
      ...entry("cost", node.cost),
      ...entry("inputs", ...inputs),
      ...entry("used by", ...users[i].slice(0, MOST_MEMBERS).map(link),
        users[i].length > MOST_MEMBERS ? `and ${users[i].length - MOST_MEMBERS} more` : null),
      ...entry("part of", ...trail(i))),
  ];
}

// The groups that a node is in, each to put together.
function trail(i) {
  const found = [];
  for (let g = nodes[i].group; g !== null; g = groups[g].parent) {
    found.unshift(make("button", {class: "link", "data-group": g, title: "Put together", onclick: () => toggle(g)}, groups[g].name));
  }
  return found;
}

// ---- the outline: functions, their lines, and bodies of loops

const outline = document.getElementById("outline");

function listGroups() {
  const lists = new Map([[null, outline]]);
  outline.replaceChildren();
  groups.forEach((group, g) => {
    const open = !state.closed.has(g);
    const button = make("button", {class: "group", "aria-expanded": open, "data-group": g, title: group.line || group.name,
      onclick: () => toggleAt(g)},
      make("span", {"aria-hidden": "true"}, open ? "▾" : "▸"), swatch(group.shade),
      make("span", {}, group.kind === "line" ? group.name.split(":").at(-1) : group.name), code(group.line),
      make("small", {}, String(members[g].length)));
    const below = make("ul", open ? {} : {hidden: ""});
    lists.get(group.parent).append(make("li", {}, button, below));
    lists.set(g, below);
  });
}

function toggleAt(g) {
  state.selected = shown.ofNode[members[g][0]]?.key ?? null;
  toggle(g);
  outline.querySelector(`[data-group="${g}"]`)?.focus();
}

function closeLines(kinds = ["line", "region"]) {
  groups.forEach((group, g) => {
    if (kinds.includes(group.kind)) state.closed.add(g);
  });
}

// ---- the search

const field = document.getElementById("search"), results = document.getElementById("results");
const own = nodes.map((node) => [node.name, node.operator, node.formula, node.type].join("\n").toLowerCase());
const lines = nodes.map((node) => `${node.place}\n${node.line}`.toLowerCase());
let chosen = -1;

function search() {
  const wanted = field.value.trim().toLowerCase();
  const all = wanted ? nodes.map((_, i) => i) : [];
  state.hits = all.filter((i) => own[i].includes(wanted)); // what is called so comes before what stands in such a line
  state.hits.push(...all.filter((i) => !own[i].includes(wanted) && lines[i].includes(wanted)));
  chosen = -1;
  results.replaceChildren(...state.hits.slice(0, MOST_RESULTS).map((i, k) =>
    make("li", {role: "option", id: `result${k}`, "aria-selected": "false", onclick: () => choose(k)},
      nodes[i].formula, make("small", {}, `${nodes[i].place}  ${nodes[i].line}`))));
  results.hidden = !state.hits.length;
  field.setAttribute("aria-expanded", String(!results.hidden));
  field.removeAttribute("aria-activedescendant");
  document.getElementById("count").textContent = wanted ? `${state.hits.length} of ${nodes.length}` : "";
  draw();
}

function choose(k) {
  const count = Math.min(state.hits.length, MOST_RESULTS);
  if (!count) return;
  chosen = (k + count) % count;
  [...results.children].forEach((item, j) => item.setAttribute("aria-selected", String(j === chosen)));
  results.children[chosen].scrollIntoView({block: "nearest"});
  field.setAttribute("aria-activedescendant", `result${chosen}`);
  goToNode(state.hits[chosen]);
}

field.addEventListener("input", search);
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter") choose(chosen + (event.shiftKey ? -1 : 1));
  else if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Escape") {
    field.value = "";
    search();
    canvas.focus();
  } else return;
  event.preventDefault();
});

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
  theme: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
};
for (const [id, action] of Object.entries(buttons)) document.getElementById(id).addEventListener("click", action);

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
listGroups();
showPanel();
fit();
new ResizeObserver(draw).observe(canvas);

// For whoever drives the page: where the box of a node, or of the group that it is in, lies in the window.
window.placeOf = (i) => {
  const {left, top} = canvas.getBoundingClientRect(), unit = shown.ofNode[i];
  return unit && [left + state.x + unit.x * state.scale, top + state.y + unit.y * state.scale];
};
