// Where boxes lie: in layers, each below all that its arrows come from. As show/layout.py, for what is shown just now.

const FAR = 6; // layers that an arrow crosses at most; from further away a value is called by its name
const GAP = 22, BEND = 10, LEVEL = 44; // between boxes, about a bend of an arrow, between layers

// Places for boxes of these widths and one height; arrows go from a box to one with a greater number.
// labels: how wide a reference to each box is.
function layout(widths, height, arrows, labels) {
  const layer = longestPaths(widths.length, arrows);
  const size = Array.from(widths);
  const references = []; // a reference, and the box that it refers to
  const chains = [];
  const add = (width, at) => {
    size.push(width);
    layer.push(at);
    return size.length - 1;
  };
  for (const [i, j] of arrows) {
    const chain = [i];
    if (layer[j] - layer[i] <= FAR) {
      for (let k = layer[i] + 1; k < layer[j]; k++) chain.push(add(BEND, k));
    } else {
      chain[0] = add(labels[i], layer[j] - 1);
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
  const points = size.map((_, i) => [x[i], height / 2 + layer[i] * (height + LEVEL)]);
  return {
    width: Math.max(0, ...rows.map((row) => x[row.at(-1)] + size[row.at(-1)] / 2)),
    height: Math.max(0, rows.length * (height + LEVEL) - LEVEL),
    centres: points.slice(0, widths.length),
    references: references.map(([reference, i]) => [i, points[reference]]),
    paths: chains.map((chain) => chain.map((i) => points[i])),
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
