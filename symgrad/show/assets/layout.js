// Where boxes lie: in layers, each below all that its arrows come from; and frames around some of them, each laid out by
// itself. As show/layout.py, for what is shown just now.

const FAR = 6; // layers that an arrow crosses at most; from further away a value is called by its name
const GAP = 22, BEND = 11, LEVEL = 44; // between boxes, about a bend of an arrow, between layers
const LABEL = 18, TITLE = 26, PAD = 14; // heights of a reference and of the title of a frame; inside of a frame

// Places for boxes {width, height, label, frame} and frames {parent, width}; arrows go from a box to one with a greater
// number in the same frame, or from a frame to the box that holds it. label: how wide a reference to a box is.
function nested(boxes, frames, arrows) {
  const rooms = [...frames, {}].map(() => ({items: [], places: new Map(), arrows: new Map()}));
  const root = frames.length, roomOf = (i) => boxes[i].frame ?? root, parentOf = (f) => frames[f].parent ?? root;
  const put = (room, key, item) => {
    if (rooms[room].places.has(key)) return;
    rooms[room].places.set(key, rooms[room].items.length);
    rooms[room].items.push({key, ...item});
  };
  boxes.forEach((box, i) => {
    for (let room = roomOf(i); room !== root; room = parentOf(room)) put(parentOf(room), `f${room}`, {frame: room});
  });
  boxes.forEach((box, i) => put(roomOf(i), `b${i}`, {...box, frame: null, box: i}));
  const join = (room, from, to, i, j) => {
    const key = `${from} ${to}`, known = rooms[room].arrows;
    if (!known.has(key)) known.set(key, {ends: [from, to].map((x) => rooms[room].places.get(x)), from: [], to: j});
    known.get(key).from.push(i);
  };
  for (const [i, j] of arrows) {
    let room = roomOf(i), from = `b${i}`;
    for (; room !== roomOf(j); room = parentOf(room)) {
      put(room, "exit", {width: 1, height: 0});
      join(room, from, "exit", i, j);
      from = `f${room}`;
    }
    join(room, from, `b${j}`, i, j);
  }
  for (let room = 0; room <= root; room++) rooms[room].number = room;
  for (const room of rooms.slice(0, root).toReversed()) settle(room, rooms, frames[room.number].width);
  settle(rooms[root], rooms, 0);
  return placed(boxes, rooms, root);
}

// Lays out a room, whose frames are laid out already.
function settle(room, rooms, least) {
  for (const item of room.items) {
    if (item.frame != null) Object.assign(item, {width: rooms[item.frame].width, height: rooms[item.frame].height});
  }
  room.laid = layout(room.items, [...room.arrows.values()].map((arrow) => arrow.ends));
  room.width = Math.max(least, room.laid.width) + 2 * PAD;
  room.height = TITLE + room.laid.height + (room.places.has("exit") ? 0 : PAD);
  const exit = room.laid.places[room.places.get("exit")];
  room.exit = (room.width - room.laid.width) / 2 + (exit ? exit.x : room.laid.width / 2);
}

// What rooms hold, on the whole plane.
function placed(boxes, rooms, root) {
  const whole = rooms[root].laid, found = {width: whole.width, height: whole.height, centres: [], frames: [], references: [], lines: []};
  const walk = (room, dx, dy) => {
    const {laid} = room, shift = ([x, ...ys]) => [x + dx, ...ys.map((y) => y + dy)];
    laid.places.forEach(({x, top, bottom}, k) => {
      const item = room.items[k];
      if (item.box != null) found.centres[item.box] = [x + dx, (top + bottom) / 2 + dy];
      if (item.frame == null) return;
      const inner = rooms[item.frame], left = x + dx - inner.width / 2;
      found.frames[item.frame] = {left, top: top + dy, width: inner.width, height: inner.height};
      walk(inner, left + (inner.width - inner.laid.width) / 2, top + dy + TITLE);
    });
    laid.references.forEach(([k, {x, bottom}]) => found.references.push([room.items[k].box, [x + dx, bottom + dy - LABEL / 2]]));
    [...room.arrows.values()].forEach(({ends: [k], from, to}, a) => {
      const points = laid.paths[a].map(shift), {frame} = room.items[k];
      if (frame != null) points[0][0] = found.frames[frame].left + rooms[frame].exit;
      found.lines.push({points, from, to});
    });
  };
  walk(rooms[root], 0, 0);
  return found;
}

// Places {x, top, bottom} for boxes {width, height, label}; arrows go from a box to one with a greater number, those
// without a label aside. A path begins at [x, y] and goes on through [x, top, bottom], straight down from top to bottom.
function layout(boxes, arrows) {
  const layer = longestPaths(boxes.length, arrows);
  const size = boxes.map((box) => box.width), tall = boxes.map((box) => box.height);
  const references = []; // a reference, and the box that it refers to
  const chains = [];
  const add = (width, height, at) => {
    size.push(width);
    tall.push(height);
    layer.push(at);
    return size.length - 1;
  };
  for (const [i, j] of arrows) {
    const chain = [i];
    if (layer[j] - layer[i] <= FAR || boxes[i].label === undefined) {
      for (let k = layer[i] + 1; k < layer[j]; k++) chain.push(add(BEND, 0, k));
    } else {
      chain[0] = add(boxes[i].label, LABEL, layer[j] - 1);
      references.push([chain[0], i]);
    }
    chain.push(j);
    chains.push(chain);
  }
  const above = size.map(() => []), below = size.map(() => []), rows = [];
  for (const chain of chains) {
    for (let k = 1; k < chain.length; k++) {
      above[chain[k]].push(chain[k - 1]);
      below[chain[k - 1]].push(chain[k]);
    }
  }
  layer.forEach((k, i) => (rows[k] ??= []).push(i));
  const sweeps = size.length > 5000 ? 4 : 12;
  order(rows, above, below, sweeps);
  const x = columns(rows, size, above, below, sweeps);
  let height = 0;
  const tops = [], bottoms = rows.map((row, k) => {
    tops[k] = height;
    const bottom = row.reduce((most, i) => Math.max(most, tall[i]), 0) + height;
    height = bottom + LEVEL;
    return bottom;
  });
  const point = (i) => ({x: x[i], top: bottoms[layer[i]] - tall[i], bottom: bottoms[layer[i]]});
  const station = (i) => [x[i], tops[layer[i]], tall[i] ? bottoms[layer[i]] - tall[i] : bottoms[layer[i]]];
  return {
    width: rows.reduce((most, row) => Math.max(most, x[row.at(-1)] + size[row.at(-1)] / 2), 0),
    height: Math.max(0, height - LEVEL),
    places: boxes.map((_, i) => point(i)),
    references: references.map(([reference, i]) => [i, point(reference)]),
    paths: chains.map(([first, ...rest]) => [[x[first], bottoms[layer[first]]], ...rest.map(station)]),
  };
}

// The layer of each box: below all that its arrows come from, and else as close to where it is used as may be.
function longestPaths(count, arrows) {
  const layer = new Array(count).fill(0), lowest = new Array(count).fill(Infinity);
  for (const [i, j] of arrows.toSorted((a, b) => a[1] - b[1])) layer[j] = Math.max(layer[j], layer[i] + 1);
  for (const [i, j] of arrows.toSorted((a, b) => b[1] - a[1])) {
    if (lowest[j] < Infinity) layer[j] = lowest[j]; // all that use it are placed
    lowest[i] = Math.min(lowest[i], layer[j] - 1);
  }
  return layer.map((k, i) => (lowest[i] < Infinity ? lowest[i] : k));
}

// Fewer crossings: each row in the order of the mean places of its neighbours.
function order(rows, above, below, sweeps) {
  const place = [];
  for (const row of rows) row.forEach((i, p) => (place[i] = p));
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const up = sweep % 2 === 1, neighbours = up ? below : above;
    for (const row of up ? rows.toReversed() : rows) {
      const wanted = new Map(row.map((i) => [i, mean(neighbours[i], place, place[i])]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      row.forEach((i, p) => (place[i] = p - row.length / 2));
    }
  }
}

// Straighter arrows: each box as near as may be to the mean of its neighbours.
function columns(rows, size, above, below, sweeps) {
  const x = size.map(() => 0);
  for (const row of rows) placeRow(row, size, row.map(() => 0), x);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const up = sweep % 2 === 1, neighbours = up ? below : above;
    for (const row of up ? rows.toReversed() : rows) {
      placeRow(row, size, row.map((i) => mean(neighbours[i], x, x[i])), x);
    }
  }
  const left = rows.reduce((least, row) => Math.min(least, x[row[0]] - size[row[0]] / 2), Infinity);
  return x.map((place) => place - left);
}

// The places of a row of which the squared distances to those wanted are least.
function placeRow(row, size, wanted, x) {
  let offset = 0;
  const offsets = row.map((i, p) => (offset += p ? (size[row[p - 1]] + size[i]) / 2 + GAP : 0));
  const starts = isotonic(wanted.map((place, p) => place - offsets[p]));
  row.forEach((i, p) => (x[i] = starts[p] + offsets[p]));
}

// The sequence that never falls and is nearest by least squares: adjacent violators are pooled.
function isotonic(values) {
  const pools = []; // sum, count
  for (const value of values) {
    let total = value, count = 1;
    while (pools.length && pools.at(-1)[0] * count >= total * pools.at(-1)[1]) {
      const before = pools.pop();
      total += before[0];
      count += before[1];
    }
    pools.push([total, count]);
  }
  return pools.flatMap(([total, count]) => new Array(count).fill(total / count));
}

function mean(indices, values, otherwise) {
  if (!indices.length) return otherwise;
  let total = 0;
  for (const i of indices) total += values[i];
  return total / indices.length;
}
