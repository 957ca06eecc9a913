// What the page shows: the nodes as they came, what is put together just now, and where it lies.
// What comes from the user's program is put into the page as text only.

const data = JSON.parse(document.getElementById("data").textContent);
const {nodes, groups, kinds} = data;
const HEIGHT = 40, ROOM = 18; // of a box; beside a text
const FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", BOLD = `bold ${FONT}`;

const canvas = document.getElementById("picture");
const pen = canvas.getContext("2d");

const state = {
  closed: new Set(), // groups whose nodes are put together
  hidden: new Set(), // kinds that are not shown
  selected: null, // a unit's key, see below, or that of a framed group
  hovered: null,
  line: null, // of the user's source, whose nodes are shown: one that was clicked
  hoveredLine: null,
  timed: data.timed, // whether boxes have the colours of their shares of the time
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

const nodesAt = data.source.map(() => []); // those of a line of the user's source
nodes.forEach((node, i) => {
  if (node.at !== null) nodesAt[node.at].push(i);
});

// The share of the time of some nodes; those of one generated line share its time.
function shareOf(indices) {
  const shares = indices.filter((i) => nodes[i].makes).map((i) => nodes[i].share ?? 0);
  return shares.reduce((sum, share) => sum + share, 0);
}

// ---- what is shown: units, each a node or a closed group; its key is "n3" or "g1"

let shown = {units: [], byKey: new Map(), ofNode: [], places: null, frames: []};

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
    if (!byKey.has(key)) {
      byKey.set(key, {key, index: byKey.size, frame: frameOf(key), nodes: [], sources: new Set(), users: new Set()});
    }
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
  const back = [], arrows = []; // an arrow is back where a group stands for a step of a loop, and the next one
  for (const unit of units) for (const source of unit.sources) {
    const forward = source.index < unit.index || source.frame !== unit.frame;
    (forward ? arrows : back).push([source.index, unit.index]);
  }
  const boxes = units.map((u) => ({width: u.width, height: HEIGHT, label: textWidth(u.name), frame: u.frame}));
  const places = nested(boxes, groups.map((_, g) => ({parent: frameAbove(g), width: titleWidth(g)})), arrows);
  units.forEach((unit, i) => ([unit.x, unit.y] = places.centres[i]));
  places.lines = places.lines.map(({points, from, to}) =>
    ({points, from: from.map((i) => units[i]), to: units[to], box: extent(points)}));
  for (const [i, j] of back) places.lines.push(backward(units[i], units[j]));
  const frames = places.frames.flatMap((frame, g) => (frame ? [{...frame, key: `g${g}`, group: g}] : []));
  frames.forEach((frame) => (frame.nodes = members[frame.group]));
  const most = units.reduce((most, unit) => Math.max(most, unit.share ?? 0), 0) || 1;
  shown = {units, byKey, ofNode, places, frames, most};
  canvas.dataset.units = units.length;
  canvas.dataset.frames = frames.length;
}

// The innermost open body of a loop or a branch that a group is in.
function frameAbove(g) {
  for (g = groups[g].parent; g !== null; g = groups[g].parent) if (groups[g].kind === "region") return g;
  return null;
}

function frameOf(key) {
  if (key[0] === "g") return frameAbove(+key.slice(1));
  const {group} = nodes[+key.slice(1)];
  return group === null || groups[group].kind === "region" ? group : frameAbove(group);
}

function titleOf(g) {
  const {line, name, place} = groups[g];
  return [line && shortened(line), [name, place].filter(Boolean).join(", ")].filter(Boolean);
}

function titleWidth(g) {
  return groups[g].kind === "region" ? textWidth(titleOf(g).join("  ")) : 0;
}

// The texts of a unit.
function describe(unit) {
  if (unit.key[0] === "n") {
    const node = nodes[unit.nodes[0]];
    Object.assign(unit, {name: node.name, first: node.formula, second: node.type, kind: node.kind, result: node.result,
      share: node.share});
  } else {
    const group = groups[+unit.key.slice(1)];
    const place = group.line ? `${group.name}  ${group.line}` : group.name;
    Object.assign(unit, {name: group.name, first: shortened(place), second: `${unit.nodes.length} operations`,
      kind: group.shade, result: unit.nodes.some((i) => nodes[i].result), share: shareOf(unit.nodes)});
  }
  unit.width = Math.max(textWidth(unit.first), textWidth(unit.second));
}

function extent(points) {
  const xs = points.map((p) => p[0]), ys = points.flatMap((p) => p.slice(1));
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

function backward(from, to) {
  const side = Math.max(from.x + from.width / 2, to.x + to.width / 2) + 30;
  const points = [[from.x + from.width / 2, from.y], [side, (from.y + to.y) / 2], [to.x + to.width / 2, to.y]];
  return {points, from: [from], to, back: true, box: extent(points)};
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
