"use strict";
// What is drawn of a computation: instructions, and regions of them that unfold.

const MOST_ITEMS = 48; // in a region, so that it can be taken in at a glance and laid out in a blink
const MOST_ALIKE = 6; // instructions that are shown one by one: inputs, and those of one opcode and the same operands

class Item {
  constructor(parent, id, rows) {
    this.parent = parent;
    this.id = id;
    this.rows = rows;
    this.open = false;
    this.layout = null;
  }

  // Nothing of it and around it lies where it did.
  changed() {
    for (let item = this; item; item = item.parent) item.layout = null;
  }

  get depth() {
    return this.parent ? this.parent.depth + 1 : 0;
  }
}

class InstructionItem extends Item {
  constructor(parent, id, row, view) {
    super(parent, id, [row]);
    this.row = row;
    this.view = view;
    this.calls = view.program.list("calls", row).filter((name) => view.state.computations.has(name));
  }

  get canOpen() {
    return this.calls.length > 0;
  }

  get children() {
    if (!this._children) {
      const { state, program } = this.view;
      this._children = this.calls.map((name) => {
        const computation = `%${program.strings[name]}`;
        const attribute = program.text("attributes", this.row).split(", ").find((part) => part.endsWith(`=${computation}`));
        const title = attribute ? attribute.replace("=", " ") : computation;
        return new RegionItem(this, `${this.id}/${name}`, "computation", title, state.computations.get(name).rows, this.view);
      });
      const most = Math.max(...this._children.map((child) => child.rows.length));
      for (const child of this._children) child.open = child.rows.length === most || child.rows.length <= MOST_ITEMS;
    }
    return this._children;
  }
}

class RegionItem extends Item {
  // kind: computation, kernel, scope, part, or a bundle of what is alike
  constructor(parent, id, kind, title, rows, view, units = null, depth = 0) {
    super(parent, id, rows);
    this.kind = kind;
    this.title = title;
    this.view = view;
    this.units = units;
    this.scopeDepth = depth;
    this.thunk = null;
  }

  get canOpen() {
    return true;
  }

  get children() {
    if (!this._children) {
      const { view } = this;
      if (this.kind === "kernel" || this.kind === "bundle") this._children = this.rows.map((row) => new InstructionItem(this, `${this.id}:${row}`, row, view));
      else this._children = grouped(this, this.units || unitsOf(this.rows, view), this.scopeDepth);
    }
    return this._children;
  }
}

// Kernels, where the state has a schedule, and single instructions.
function unitsOf(rows, view) {
  const { program, state } = view;
  const shown = view.constants ? rows : rows.filter((row) => program.opcode(row) !== "constant" || !state.users(row).length);
  if (!view.kernels) return shown.map((row) => ({ rows: [row], thunk: null }));
  const units = [];
  const byThunk = new Map();
  for (const row of shown) {
    const thunks = program.plan.thunksOf(row);
    if (thunks.length !== 1) {
      units.push({ rows: [row], thunk: null });
      continue;
    }
    const unit = byThunk.get(thunks[0]);
    if (unit) unit.rows.push(row);
    else {
      byThunk.set(thunks[0], { rows: [row], thunk: thunks[0] });
      units.push(byThunk.get(thunks[0]));
    }
  }
  return units;
}

function itemOf(parent, unit) {
  const { view } = parent;
  const [row] = unit.rows;
  if (unit.rows.length === 1) return new InstructionItem(parent, `${parent.id}:${row}`, row, view);
  const item = new RegionItem(parent, `${parent.id}:k${unit.thunk.position}`, "kernel", view.program.plan.title(unit.thunk), unit.rows, view);
  item.thunk = unit.thunk;
  return item;
}

// The items of a region: its units, or else regions of them by their scopes, or by their order.
function grouped(parent, units, depth) {
  const { view } = parent;
  const { program } = view;
  if (units.length <= MOST_ITEMS) return bundled(parent, units);
  const elements = parent.kind === "scope" || parent.kind === "part" ? [] : bundlesOf(parent, units, (row) => program.opcode(row) === "get-tuple-element");
  if (elements.length) {
    const inBundles = new Set(elements.flatMap((item) => item.rows));
    return [...elements, ...grouped(parent, units.filter((unit) => !inBundles.has(unit.rows[0])), depth)];
  }
  for (let at = view.scopes ? depth : Infinity; at < depth + 64; at++) {
    const parts = new Map();
    for (const unit of units) {
      const name = scopeOf(view, unit)[at];
      const part = parts.get(name);
      if (part) part.push(unit);
      else parts.set(name, [unit]);
    }
    if (parts.size === 1 && parts.has(undefined)) break;
    if (parts.size === 1) continue;
    const items = [];
    for (const [name, part] of parts) {
      if (name === undefined) items.push(...part.map((unit) => ({ units: [unit], title: unit })));
      else items.push({ units: part, title: name });
    }
    const last = (part) => position(view, part.units[part.units.length - 1]);
    items.sort((a, b) => last(a) - last(b));
    return several(parent, items, at + 1);
  }
  const bundles = bundlesOf(parent, units, () => true);
  const inBundles = new Set(bundles.flatMap((item) => item.rows));
  const rest = units.filter((unit) => !inBundles.has(unit.rows[0]));
  return [...bundles, ...several(parent, rest.map((unit) => ({ units: [unit], title: unit })), depth)];
}

// Regions of instructions that are alike: of one opcode, and the same operands.
function bundlesOf(parent, units, isWanted) {
  const { program, isDrawn, operandsOf } = parent.view;
  const bundles = new Map();
  for (const unit of units) {
    const [row] = unit.rows;
    if (unit.rows.length > 1 || !isWanted(row)) continue;
    const key = `${program.opcode(row)} ${operandsOf(row).filter(isDrawn).join(" ")}`;
    const bundle = bundles.get(key);
    if (bundle) bundle.push(unit);
    else bundles.set(key, [unit]);
  }
  const large = [...bundles.values()].filter((bundle) => bundle.length > MOST_ALIKE && bundle.length < units.length);
  return large.map((bundle) => region(parent, "bundle", `${bundle.length} × ${program.opcode(bundle[0].rows[0])}`, bundle, 0));
}

// Items for units, in their order; those that are alike are together, unless they are few.
function bundled(parent, units) {
  const bundles = new Map(bundlesOf(parent, units, () => true).flatMap((item) => item.rows.map((row) => [row, item])));
  return [...new Set(units.map((unit) => bundles.get(unit.rows[0]) || itemOf(parent, unit)))];
}

// Items one by one if they are few; else runs of them.
function several(parent, parts, depth) {
  const made = (part) => (typeof part.title === "string" && part.units.length > 1 ? region(parent, "scope", part.title, part.units, depth) : itemOf(parent, part.units[0]));
  if (parts.length <= MOST_ITEMS) return parts.map(made);
  const size = Math.max(Math.ceil(parts.length / 32), Math.min(32, Math.ceil(Math.sqrt(parts.length))));
  const items = [];
  for (let start = 0; start < parts.length; start += size) {
    const run = parts.slice(start, start + size);
    if (run.length === 1) items.push(made(run[0]));
    else items.push(region(parent, "part", `${partTitle(parent, run[0])} … ${partTitle(parent, run[run.length - 1])}`, run.flatMap((part) => part.units), Math.max(0, depth - 1)));
  }
  return items;
}

function partTitle(parent, part) {
  return typeof part.title === "string" ? part.title : `%${parent.view.program.name(part.units[0].rows[0])}`;
}

function region(parent, kind, title, units, depth) {
  const rows = units.flatMap((unit) => unit.rows);
  return new RegionItem(parent, `${parent.id}/${kind}:${title}:${rows[0]}`, kind, title, rows, parent.view, units, depth);
}

// The scope of what a unit makes; that of a parameter is where it is used first.
function scopeOf(view, unit) {
  const { program, state } = view;
  let row = unit.rows[unit.rows.length - 1];
  if (program.opcode(row) === "parameter") [row] = [...state.users(row), row];
  return program.scope(row);
}

function position(view, unit) {
  if (!view.positions) view.positions = new Map(view.state.order.map((row, k) => [row, k]));
  return view.positions.get(unit.rows[unit.rows.length - 1]) ?? Infinity;
}
