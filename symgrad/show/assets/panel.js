// What stands beside the graph: details of what is selected, the outline, the search.

const MOST_RESULTS = 200, MOST_MEMBERS = 60; // that are listed

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
  if (!unit && state.selected) panel.replaceChildren(...aboutGroup(+state.selected.slice(1))); // it is framed
  else if (!unit && state.line !== null) panel.replaceChildren(...aboutLine(state.line));
  else if (!unit) panel.replaceChildren(...aboutGraph());
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
    ...(data.signature ? [make("p", {}, code(data.signature))] : []),
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
      ...entry("line", group.place ? make("div", {}, group.place) : null, code(group.line)),
      ...entry("time", percent(shareOf(inside))),
      ...entry(`${inside.length} operations`, ...inside.slice(0, MOST_MEMBERS).map(link),
        inside.length > MOST_MEMBERS ? `and ${inside.length - MOST_MEMBERS} more` : null)),
  ];
}

function aboutLine(k) {
  const {file, number, text} = data.source[k], of = (kind) => nodesAt[k].filter((i) => nodes[i].kind === kind);
  return [
    make("h2", {}, `${file}:${number}`),
    make("p", {}, code(text.trim())),
    make("dl", {},
      ...entry("time", percent(shareOf(nodesAt[k]))),
      ...Object.keys(kinds).flatMap((kind) => entry(kinds[kind].title, ...of(kind).slice(0, MOST_MEMBERS).map(link),
        of(kind).length > MOST_MEMBERS ? `and ${of(kind).length - MOST_MEMBERS} more` : null))),
  ];
}

// A share of the time, where times were measured.
function percent(share) {
  return data.timed && share != null ? `${(100 * share).toFixed(1)} %` : null;
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
      ...entry("time of that line", percent(node.share)),
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

// ---- the user's source

const sourceList = document.getElementById("source");

function listSource() {
  const most = Math.max(...nodesAt.map(shareOf), 0) || 1;
  data.source.forEach((line, k) => {
    const before = data.source[k - 1];
    if (before?.file !== line.file) sourceList.append(make("h3", {}, line.file));
    else if (before.number + 1 < line.number) sourceList.append(make("p", {class: "gap", "aria-hidden": "true"}, "⋮"));
    sourceList.append(sourceLine(line, k, data.timed && nodesAt[k].some((i) => nodes[i].makes) ? shareOf(nodesAt[k]) : null, most));
  });
}

function sourceLine({number, text}, k, share, most) {
  const parts = [make("span", {class: "number"}, String(number)), make("span", {class: "text"}, text)];
  if (data.timed) {
    const time = make("span", {class: "share", title: "share of the time"}, percent(share) ?? "");
    time.style.setProperty("--part", `${100 * (share ?? 0) / most}%`);
    parts.unshift(time);
  }
  if (!nodesAt[k].length) return make("div", {class: "line"}, ...parts);
  const point = (line) => () => {
    state.hoveredLine = line;
    draw();
  };
  return make("button", {class: "line", "data-line": k, "aria-pressed": "false", onclick: () => keepLine(k),
    onpointerenter: point(k), onpointerleave: point(null), onfocus: point(k), onblur: point(null)}, ...parts);
}

// Marks the lines of the box under the pointer, or of what is selected, and the one that is kept.
function markLines() {
  const unit = [state.hovered, state.selected].map((key) => shown.byKey.get(key)).find(Boolean);
  const wanted = new Set(unit?.nodes.map((i) => nodes[i].at));
  for (const button of sourceList.querySelectorAll("button")) {
    const k = +button.dataset.line;
    button.classList.toggle("lit", wanted.has(k));
    button.setAttribute("aria-pressed", String(k === state.line));
  }
  if (wanted.size) sourceList.querySelector(".lit")?.scrollIntoView({block: "nearest"});
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
      make("span", {}, group.kind === "line" ? group.name.replace(/^.*(:|line )/, "") : group.name), code(group.line),
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
