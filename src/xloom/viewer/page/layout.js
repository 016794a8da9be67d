"use strict";
// Where items lie: each open one is laid out by itself, and then has a size in the one around it.

const FONT = 12;
const TEXT_WIDTH = 7.25; // of a character in the font that code is drawn in
const LINE = 16;
const PADDING = 9;
const HEADER = 28;
const INSET = 16;
const MOST_WIDTH = 300;
const PORT_HEIGHT = 18;
const MOST_PORTS = 12;
const MOST_TARGETS = 8; // of an input; the edges of one that has more are drawn when they are asked for

function layoutOf(item) {
  if (item.layout) return item.layout;
  item.layout = item.open && item.canOpen ? openLayout(item) : { ...closedSize(item), boxes: [], edges: [] };
  return item.layout;
}

function closedSize(item) {
  const longest = Math.max(...item.lines.map((line) => line.length));
  const sign = item.canOpen ? 16 : 0;
  return { width: Math.min(MOST_WIDTH, Math.max(64, longest * TEXT_WIDTH + 2 * PADDING + 6 + sign)), height: item.lines.length * LINE + 2 * PADDING - 4 };
}

function openLayout(item) {
  const inner = item.kind === "bundle" ? inGrid(item.children) : arranged(item.children, item.view, item instanceof RegionItem && item.kind !== "computation");
  const title = item.lines[0].length * (TEXT_WIDTH + 0.5) + 60;
  const width = Math.max(inner.width + 2 * INSET, Math.min(title, 420));
  const left = (width - inner.width) / 2;
  return {
    width,
    height: inner.height + HEADER + 2 * INSET,
    boxes: inner.boxes.map((box) => ({ ...box, x: box.x + left, y: box.y + HEADER + INSET })),
    edges: inner.edges.map((edge) => ({ ...edge, points: edge.points.map((p) => ({ x: p.x + left, y: p.y + HEADER + INSET })) })),
  };
}

// The boxes and edges of items beside each other. With `ports`, values from elsewhere have boxes too.
function arranged(items, view, ports) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 40, edgesep: 10, ranker: items.length > 120 ? "longest-path" : "network-simplex" });
  graph.setDefaultEdgeLabel(() => ({}));
  const nodes = items.map((item) => ({ item, ...sizeOf(item) }));
  const place = new Map();
  items.forEach((item, k) => item.rows.forEach((row) => place.set(row, k)));
  const edges = new Map();
  const outside = new Map();
  const connect = (from, to, row, control) => {
    const key = `${from} ${to}`;
    const edge = edges.get(key);
    if (edge) edge.rows.add(row);
    else edges.set(key, { from, to, rows: new Set([row]), control });
  };
  items.forEach((item, k) => {
    for (const row of item.rows) {
      for (const operand of view.operandsOf(row)) {
        const source = place.get(operand);
        if (source === undefined) {
          if (!ports || !view.isDrawn(operand)) continue;
          if (!outside.has(operand)) outside.set(operand, new Set());
          outside.get(operand).add(k);
        } else if (source !== k) connect(source, k, operand, false);
      }
      for (const before of view.state.predecessors(row)) {
        const source = place.get(before);
        if (source !== undefined && source !== k) connect(source, k, before, true);
      }
    }
  });
  addPorts(nodes, outside, connect, view);
  nodes.forEach((node, k) => graph.setNode(k, { width: node.width, height: node.height }));
  markHubs(nodes.length, edges);
  for (const { from, to, isHidden } of edges.values()) if (!isHidden) graph.setEdge(from, to, { minlen: 1, weight: 1 });
  dagre.layout(graph);
  return placed(graph, nodes, edges);
}

// What everything reads, such as the parameters of all layers, keeps one edge: its others would be as long as the picture
// is high, and the layout would take seconds for them.
function markHubs(count, edges) {
  const targets = new Array(count).fill(0);
  const isInput = new Array(count).fill(true);
  for (const { from, to } of edges.values()) {
    targets[from] += 1;
    isInput[to] = false;
  }
  const hasOne = new Set();
  for (const edge of edges.values()) {
    if (!isInput[edge.from] || targets[edge.from] <= MOST_TARGETS) continue;
    edge.isHidden = hasOne.has(edge.from);
    hasOne.add(edge.from);
  }
}

// What is alike, in rows and columns.
function inGrid(items) {
  const sizes = items.map(sizeOf);
  const columns = Math.max(1, Math.round(Math.sqrt(items.length / 2)));
  const gap = 22;
  const width = Math.max(...sizes.map((size) => size.width));
  const boxes = [];
  let y = 0;
  for (let start = 0; start < items.length; start += columns) {
    const row = sizes.slice(start, start + columns);
    row.forEach((size, k) => boxes.push({ item: items[start + k], x: k * (width + gap), y, ...size }));
    y += Math.max(...row.map((size) => size.height)) + gap;
  }
  return { width: columns * (width + gap) - gap, height: y - gap, boxes, edges: [] };
}

function sizeOf(item) {
  const { width, height } = layoutOf(item);
  return { width, height };
}

function addPorts(nodes, outside, connect, view) {
  const all = [...outside];
  const shown = all.length > MOST_PORTS ? all.slice(0, MOST_PORTS - 1) : all;
  const rest = all.slice(shown.length);
  for (const [row, users] of shown) {
    const text = shortened(`%${view.program.name(row)}`, 24);
    nodes.push({ port: { rows: [row], text }, width: text.length * 6.6 + 16, height: PORT_HEIGHT });
    users.forEach((k) => connect(nodes.length - 1, k, row, false));
  }
  if (!rest.length) return;
  const text = `${rest.length} more`;
  nodes.push({ port: { rows: rest.map(([row]) => row), text }, width: text.length * 6.6 + 16, height: PORT_HEIGHT });
  const users = new Set(rest.flatMap(([, found]) => [...found]));
  users.forEach((k) => connect(nodes.length - 1, k, rest[0][0], false));
}

function placed(graph, nodes, edges) {
  const { width = 0, height = 0 } = graph.graph();
  const boxes = nodes.map((node, k) => {
    const { x, y } = graph.node(k);
    return { item: node.item, port: node.port, x: x - node.width / 2, y: y - node.height / 2, width: node.width, height: node.height };
  });
  const straight = (from, to) => [
    { x: from.x + from.width / 2, y: from.y + from.height },
    { x: to.x + to.width / 2, y: to.y },
  ];
  const lines = [...edges.values()].map(({ from, to, rows, control, isHidden }) => ({
    from: boxes[from],
    to: boxes[to],
    rows,
    control,
    isHidden,
    points: isHidden ? straight(boxes[from], boxes[to]) : graph.edge(from, to).points,
  }));
  return { width: Number.isFinite(width) ? Math.max(width, 0) : 0, height: Number.isFinite(height) ? Math.max(height, 0) : 0, boxes, edges: lines };
}

// All boxes and edges that show, in the coordinates of the whole, outer ones first.
function flattened(root) {
  const scene = { boxes: [], edges: [], width: 0, height: 0, byItem: new Map(), byRow: new Map() };
  const inner = root.layout;
  scene.width = inner.width;
  scene.height = inner.height;
  const add = (layout, x, y, depth) => {
    for (const box of layout.boxes) {
      const shown = { ...box, x: box.x + x, y: box.y + y, depth };
      scene.boxes.push(shown);
      if (!box.item) continue;
      scene.byItem.set(box.item, shown);
      if (box.item.open && box.item.canOpen) add(box.item.layout, shown.x, shown.y, depth + 1);
    }
    for (const edge of layout.edges) scene.edges.push({ ...edge, points: edge.points.map((p) => ({ x: p.x + x, y: p.y + y })) });
  };
  add(inner, 0, 0, 0);
  for (const box of scene.boxes) {
    if (!box.item || (box.item.open && !(box.item instanceof InstructionItem))) continue;
    for (const row of box.item.rows) scene.byRow.set(row, box);
  }
  for (const edge of scene.edges) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const { x, y } of edge.points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    edge.bounds = [left, top, right, bottom];
  }
  return scene;
}
