// What the page shows: the nodes as they came, what is put together just now, and where it lies.
// What comes from the user's program is put into the page as text only.

const data = JSON.parse(document.getElementById("data").textContent);
const {nodes, groups, kinds} = data;
const HEIGHT = 40, LABEL = 18, ROOM = 18; // of a box; of a reference; beside a text
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
