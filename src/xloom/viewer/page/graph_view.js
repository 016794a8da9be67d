"use strict";
// The graph: what is open, what is looked at, and how one moves in it.

const MOST_NEIGHBOURS = 120;

class GraphView {
  constructor(app, canvas) {
    this.app = app;
    this.canvas = canvas;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.frames = [];
    this.options = { kernels: true, scopes: true, constants: false };
    this.focus = 0; // how far from what is selected is shown; 0 for all
    this.selected = null;
    this.top = null; // the computation that is shown, if it is not the entry
    this._listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get program() {
    return this.app.program;
  }

  // -- what is shown
  // Shows a state from its entry on. What was open stays so.
  show(state) {
    const open = this.root ? new Set(this._openItems(this.root).map((item) => item.id)) : new Set();
    const ghosts = this.app.marks ? state.removed.filter((row) => state.computationOf(row)) : [];
    const byName = new Map(ghosts.map((row) => [`${this.program.columns.computation[row]} ${this.program.columns.name[row]}`, row]));
    const isPlanned = state.number === this.program.planned;
    this.view = {
      program: this.program,
      state,
      kernels: this.options.kernels && isPlanned,
      scopes: this.options.scopes,
      constants: this.options.constants,
      operandsOf: (row) => this._operandsOf(state, row, byName),
      isDrawn: (row) => this.options.constants || this.program.opcode(row) !== "constant",
    };
    this.state = state;
    if (!state.computations.has(this.top)) this.top = state.entry;
    const { rows } = state.computations.get(this.top);
    const gone = ghosts.filter((row) => this.program.columns.computation[row] === this.top);
    this.root = new RegionItem(null, "top", "computation", `%${this.program.strings[this.top]}`, [...rows, ...gone], this.view);
    this.root.open = true;
    if (this.focus && this.app.row !== null) this._showNeighbours(this.app.row);
    else this._reopen(this.root, open);
    this._openFirst();
    this.refresh();
    this.fit();
  }

  _operandsOf(state, row, ghosts) {
    if (!ghosts.size) return state.operands(row);
    const { columns } = this.program;
    const computation = columns.computation[row];
    const found = this.program.list("operands", row).map((name) => state.find(computation, name) ?? ghosts.get(`${computation} ${name}`));
    return found.filter((operand) => operand !== undefined);
  }

  _openItems(item) {
    return item._children ? item._children.flatMap((child) => [...(child.open ? [child] : []), ...this._openItems(child)]) : [];
  }

  _reopen(item, ids) {
    if (!ids.size) return;
    for (const child of item.children) {
      if (!ids.has(child.id)) continue;
      child.open = true;
      this._reopen(child, ids);
    }
  }

  // Opens what has the most in it, as long as little shows.
  _openFirst() {
    const weight = (item) => {
      if (item.kind === "kernel" || item.kind === "bundle") return 0;
      if (item instanceof RegionItem) return item.rows.length;
      return item.calls.reduce((sum, name) => sum + this.state.computations.get(name).rows.length, 0);
    };
    for (let k = 0; k < 12; k++) {
      const shown = [this.root, ...this._openItems(this.root)].flatMap((item) => item.children);
      if (shown.length > 20) return;
      const [largest] = shown.filter((item) => !item.open && weight(item) > 5).sort((a, b) => weight(b) - weight(a));
      if (!largest) return;
      largest.open = true;
      largest.changed();
    }
  }

  // Only what is at most `focus` steps from an instruction.
  _showNeighbours(row) {
    const { state, program } = this.view;
    const near = new Set([row]);
    let edge = [row];
    for (let step = 0; step < this.focus && near.size < MOST_NEIGHBOURS; step++) {
      const next = [];
      for (const each of edge) {
        for (const other of [...state.operands(each), ...state.users(each)]) {
          if (near.has(other) || near.size >= MOST_NEIGHBOURS || !(this.options.constants || program.opcode(other) !== "constant")) continue;
          near.add(other);
          next.push(other);
        }
      }
      edge = next;
    }
    const rows = [...near];
    this.root = new RegionItem(null, `near:${row}`, "near", `around %${program.name(row)}`, rows, this.view);
    this.root._children = rows.map((each) => new InstructionItem(this.root, `near:${each}`, each, this.view));
    this.root.open = true;
  }

  refresh() {
    if (!this.root.layout) this.root.layout = arranged(this.root.children, this.view, false);
    this.scene = flattened(this.root);
    this._look = null;
    this.draw();
  }

  toggle(item) {
    if (!item || !item.canOpen || item === this.root) return;
    const before = this.scene.byItem.get(item);
    item.open = !item.open;
    item.changed();
    if (!item.open && this.selected !== item && this._isInside(this.selected, item)) this.selected = item;
    this.refresh();
    const after = this.scene.byItem.get(item);
    if (before && after) {
      this.camera.x += (before.x - after.x) * this.camera.scale;
      this.camera.y += (before.y - after.y) * this.camera.scale;
    }
    this.app.announce(`${item.lines[0].trim()} ${item.open ? "unfolded" : "folded"}`);
    this.draw();
  }

  _isInside(item, other) {
    for (; item; item = item.parent) if (item === other) return true;
    return false;
  }

  foldAll() {
    this._openItems(this.root).forEach((item) => {
      item.open = false;
      item.layout = null;
    });
    this.root.layout = null;
    this.selected = null;
    this.refresh();
    this.fit();
  }

  // Unfolds every region that shows; computations that are called stay as they are.
  unfoldOnce() {
    let budget = 600;
    for (const { item } of this.scene.boxes) {
      if (!item || item.open || !item.canOpen || item instanceof InstructionItem) continue;
      if ((budget -= Math.min(item.rows.length, MOST_ITEMS)) < 0) break;
      item.open = true;
      item.changed();
    }
    this.refresh();
    this.fit();
  }

  // -- selection
  // Selects an instruction, and unfolds what it is in.
  reveal(row) {
    if (this.focus) {
      this._showNeighbours(row);
      this.refresh();
      this.selected = this.root.children[0];
      this.fit();
      return;
    }
    if (this.program.opcode(row) === "constant" && !this.options.constants && this.state.users(row).length) {
      this.app.setOption("constants", true);
    }
    const chain = this._chain(row);
    const top = this.program.columns.computation[chain[0]];
    if (top !== this.top) {
      this.top = top;
      this.show(this.state);
    }
    this.selected = this._open(chain);
    this.refresh();
    if (this.selected) this.center(this.selected);
  }

  // The instructions through whose computations an instruction is reached, from the entry if it can be, and itself.
  _chain(row) {
    const chain = [row];
    const seen = new Set();
    for (;;) {
      const computation = this.program.columns.computation[chain[0]];
      const [caller] = this.state.callers(computation);
      if (computation === this.state.entry || caller === undefined || seen.has(computation)) return chain;
      seen.add(computation);
      chain.unshift(caller);
    }
  }

  // The item of the last instruction of a chain; what is on the way is open then.
  _open(chain) {
    let item = this.root;
    for (const [k, row] of chain.entries()) {
      item = this._descend(item, row);
      if (!item || k === chain.length - 1) return item;
      const name = this.program.columns.computation[chain[k + 1]];
      item.open = true;
      item = item.children.find((child) => child.id.endsWith(`/${name}`));
      item.open = true;
      item.changed();
    }
    return null;
  }

  _descend(item, row) {
    for (;;) {
      const child = item.children.find((each) => each.rows.includes(row));
      if (!child) return null;
      if (child instanceof InstructionItem) return child;
      if (!child.open) {
        child.open = true;
        child.changed();
      }
      item = child;
    }
  }

  select(item) {
    this.selected = item;
    this._look = null;
    this.app.selected(item instanceof InstructionItem ? item.row : null, item);
    this.draw();
  }

  // -- the camera
  // Shows all; or, unless it is `whole`, what of it can be read, from the top on.
  fit({ whole = false } = {}) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const margin = 36;
    const scale = Math.min((width - 2 * margin) / Math.max(1, this.scene.width), (height - 2 * margin) / Math.max(1, this.scene.height), 1.1);
    const readable = Math.min(0.55, Math.max(0.4, (width - 2 * margin) / Math.max(1, this.scene.width)));
    this.camera.scale = Math.max(0.03, whole ? scale : Math.max(scale, readable));
    this.camera.x = (width - this.scene.width * this.camera.scale) / 2;
    this.camera.y = Math.max(margin, (height - this.scene.height * this.camera.scale) / 2);
    this.draw();
  }

  center(item) {
    const box = this.scene.byItem.get(item);
    if (!box) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.camera.scale = Math.min(Math.max(this.camera.scale, 0.8), 1.4);
    this.camera.x = width / 2 - (box.x + box.width / 2) * this.camera.scale;
    this.camera.y = height / 2 - (box.y + Math.min(box.height, 200) / 2) * this.camera.scale;
    this.draw();
  }

  // Moves as little as shows the item.
  follow(item) {
    const box = this.scene.byItem.get(item);
    if (!box) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const left = box.x * this.camera.scale + this.camera.x;
    const top = box.y * this.camera.scale + this.camera.y;
    const margin = 60;
    this.camera.x += Math.max(0, margin - left) - Math.max(0, left + Math.min(box.width * this.camera.scale, width / 2) - (width - margin));
    this.camera.y += Math.max(0, margin - top) - Math.max(0, top + Math.min(box.height * this.camera.scale, height / 2) - (height - margin));
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.03, this.camera.scale * factor));
    const real = scale / this.camera.scale;
    this.camera.x = x - (x - this.camera.x) * real;
    this.camera.y = y - (y - this.camera.y) * real;
    this.camera.scale = scale;
    this.draw();
  }

  pan(x, y) {
    this.camera.x += x;
    this.camera.y += y;
    this.draw();
  }

  // -- drawing
  draw() {
    if (this._frame || !this.scene) return;
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._drawNow();
    });
  }

  _drawNow() {
    if (!this.canvas.clientWidth || !this.scene) return;
    const start = performance.now();
    const { context, width, height } = sharpContext(this.canvas);
    const drawing = new Drawing(context, this.camera, width, height, this.app.palette);
    if (!this._look) this._look = this._makeLook();
    drawing.scene(this.scene, this._look);
    this.drawn = drawing.drawn;
    this.frames.push(performance.now() - start);
    if (this.frames.length > 300) this.frames.shift();
    this.app.drawnFirst();
  }

  // What is particular about items and edges now.
  _makeLook() {
    const { state } = this.view;
    const { palette, matches } = this.app;
    const row = this.selected instanceof InstructionItem ? this.selected.row : null;
    const operands = new Set(row === null ? [] : this.view.operandsOf(row));
    const users = row === null ? [] : state.users(row);
    const here = this.selected && this.scene.byItem.get(this.selected);
    const relations = [];
    const joined = new Set(this.scene.edges.filter((edge) => edge.to.item === this.selected || edge.from.item === this.selected).map((edge) => (edge.to.item === this.selected ? edge.from.item : edge.to.item)));
    const relate = (other, operand) => {
      const box = this.scene.byRow.get(other);
      if (!box || !here || box.item === this.selected || joined.has(box.item)) return;
      relations.push(operand ? { from: box, to: here, operand } : { from: here, to: box, operand });
    };
    operands.forEach((other) => relate(other, true));
    users.forEach((other) => relate(other, false));
    const marks = this.app.marks ? state.marks : new Map();
    const heat = this.app.heat;
    const hasMatch = remembered((item) => matches !== null && item.rows.some((each) => matches.has(each)));
    return {
      selected: this.selected,
      hasSelection: row !== null,
      relations,
      mark: remembered((item) => strongest(item.rows, marks)),
      isMatch: (item) => hasMatch(item) && !(item.open && item instanceof RegionItem),
      isDimmed: (item) => matches !== null && !hasMatch(item),
      heat: remembered((item) => (heat ? Math.min(1, item.rows.reduce((sum, each) => sum + (heat.get(each) || 0), 0)) : 0)),
      edgeColour: (edge) => {
        if (!this.selected) return null;
        if (edge.to.item === this.selected) return palette.operand;
        return edge.from.item === this.selected && (row === null || edge.rows.has(row)) ? palette.user : null;
      },
    };
  }

  changedLook() {
    this._look = null;
    this.draw();
  }

  // -- pointers and keys
  _listen() {
    const { canvas } = this;
    const pointers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return this._hover(event);
      const others = [...pointers.values()].filter((pointer) => pointer.pointerId !== event.pointerId);
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      moved += Math.abs(dx) + Math.abs(dy);
      if (others.length) {
        const [other] = others;
        const distance = (pointer) => Math.hypot(pointer.clientX - other.clientX, pointer.clientY - other.clientY);
        const place = this._place(other);
        this.zoom(distance(event) / Math.max(1, distance(before)), place.x, place.y);
      } else this.pan(dx, dy);
      pointers.set(event.pointerId, event);
      return undefined;
    });
    const up = (event) => {
      const isClick = pointers.delete(event.pointerId) && moved < 5 && event.type === "pointerup";
      if (isClick) this._click(event);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("dblclick", (event) => {
      const box = this.boxAt(this._place(event));
      if (box && box.item && !this._justToggled) this.toggle(box.item);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const place = this._place(event);
        if (event.shiftKey) this.pan(-event.deltaY - event.deltaX, 0);
        else this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), place.x, place.y);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this._key(event));
  }

  _place(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  }

  boxAt({ x, y }) {
    const at = { x: (x - this.camera.x) / this.camera.scale, y: (y - this.camera.y) / this.camera.scale };
    for (let k = this.scene.boxes.length - 1; k >= 0; k--) {
      const box = this.scene.boxes[k];
      if (at.x >= box.x && at.x <= box.x + box.width && at.y >= box.y && at.y <= box.y + box.height) return { ...box, at };
    }
    return null;
  }

  _hover(event) {
    const box = this.boxAt(this._place(event));
    this.canvas.style.cursor = box ? "pointer" : "grab";
    let title = "";
    if (box && box.item instanceof InstructionItem) title = this.program.hlo(box.item.row);
    else if (box && box.item) title = `${box.item.title}: ${countText(box.item.rows.length, "instruction")}`;
    this.canvas.title = shortened(title, 400);
  }

  _click(event) {
    this.canvas.focus();
    const box = this.boxAt(this._place(event));
    this._justToggled = false;
    if (!box) return this.select(null);
    if (box.port) return this.app.select(box.port.rows[0]);
    this.select(box.item);
    // the sign that folds: in the header of what is open, in the corner of what is not
    const inHeader = isOpen(box) ? box.at.y < box.y + HEADER && box.at.x < box.x + 30 : box.at.x > box.x + box.width - 22 && box.at.y < box.y + 24;
    if (inHeader && box.item.canOpen) {
      this._justToggled = true;
      this.toggle(box.item);
    }
    return undefined;
  }

  _key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pans = { ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0] };
    const actions = {
      ArrowUp: () => this._along(true),
      ArrowDown: () => this._along(false),
      ArrowLeft: () => this._beside(-1),
      ArrowRight: () => this._beside(1),
      Enter: () => this.toggle(this.selected),
      " ": () => this.toggle(this.selected),
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      0: () => this.fit({ whole: true }),
      Escape: () => this.select(null),
    };
    if (event.shiftKey && pans[event.key]) this.pan(...pans[event.key]);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  // To the first operand, or to the first user.
  _along(up) {
    const { selected } = this;
    if (!selected) return this._take(this.root.children[0]);
    const edges = this.scene.edges.filter((edge) => (up ? edge.to.item === selected && edge.from.item : edge.from.item === selected && edge.to.item));
    if (edges.length) return this._take(up ? edges[0].from.item : edges[0].to.item);
    if (selected instanceof InstructionItem) {
      const others = up ? this.view.operandsOf(selected.row) : this.state.users(selected.row);
      const box = others.map((other) => this.scene.byRow.get(other)).find((found) => found && found.item !== selected);
      if (box) return this._take(box.item);
    }
    return undefined;
  }

  // To the nearest item on the left, or on the right.
  _beside(direction) {
    const here = this.selected && this.scene.byItem.get(this.selected);
    if (!here) return this._take(this.root.children[0]);
    let best = null;
    let least = Infinity;
    for (const box of this.scene.boxes) {
      if (!box.item || box.item === this.selected || box.item.parent !== this.selected.parent) continue;
      const dx = (box.x + box.width / 2 - here.x - here.width / 2) * direction;
      const dy = Math.abs(box.y + box.height / 2 - here.y - here.height / 2);
      if (dx <= 0 || dx + 4 * dy >= least) continue;
      least = dx + 4 * dy;
      best = box.item;
    }
    return best ? this._take(best) : undefined;
  }

  _take(item) {
    if (!item) return;
    this.select(item);
    this.follow(item);
  }
}

// A function of items that looks at all their instructions: once, however many frames are drawn.
function remembered(of) {
  const known = new Map();
  return (item) => {
    if (!known.has(item)) known.set(item, of(item));
    return known.get(item);
  };
}

function strongest(rows, marks) {
  let found;
  for (const row of rows) {
    const mark = marks.get(row);
    if (mark === "added") return "added";
    if (mark === "changed" || (mark === "removed" && !found)) found = mark;
  }
  return found;
}
