"use strict";
// The schedule, the arrays that are alive at each step of it, and what the peak is made of.

class MemoryView {
  constructor(app) {
    this.app = app;
    this.canvas = byId("memory-chart");
    this.position = 0;
    const { plan } = app.program;
    if (!plan) {
      const why = app.program.data.why_no_plan || "The program was written without its compilation.";
      byId("memory").replaceChildren(element("p", { class: "empty" }, `There is no schedule. ${why}`));
      return;
    }
    this.plan = plan;
    this._count();
    this.steps = new VirtualList(byId("schedule"), {
      label: "Schedule",
      make: (k) => this._step(k),
      act: (k) => this.move(k, true),
      choose: (k) => this.move(k),
    });
    this.canvas.addEventListener("pointerdown", (event) => this._point(event));
    this.canvas.addEventListener("pointermove", (event) => (event.buttons ? this._point(event) : this._hover(event)));
    this.canvas.addEventListener("keydown", (event) => this._key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.steps.show(plan.thunks.length, this.peak);
    this.move(this.peak);
  }

  // Bytes by step: of temporaries, which come and go, and of what is there all the time.
  _count() {
    const { thunks, arrays, program } = this.plan;
    const places = new Map(thunks.map((thunk, k) => [thunk.position, k]));
    const positions = thunks.map((thunk) => thunk.position);
    const at = (position) => places.get(position) ?? nearest(positions, position);
    this.temporaries = [];
    this.fixed = [];
    for (const array of arrays) {
      const names = array.values.map(([, text, shape]) => `${program.strings[text]} ${program.strings[shape]}`);
      const shown = { ...array, names };
      if (array.last < 0) {
        if (array.bytes) this.fixed.push(shown);
      } else if (array.bytes) this.temporaries.push({ ...shown, first: at(array.first), last: at(array.last) });
    }
    this.base = this.fixed.reduce((sum, array) => sum + array.bytes, 0);
    const changes = new Float64Array(thunks.length + 1);
    for (const { first, last, bytes } of this.temporaries) {
      changes[first] += bytes;
      changes[last + 1] -= bytes;
    }
    this.live = [];
    let now = 0;
    for (let k = 0; k < thunks.length; k++) this.live.push((now += changes[k]));
    this.most = this.live.reduce((most, each) => Math.max(most, each), 1);
    this.peak = Math.max(0, this.live.indexOf(this.most));
    this._stack();
  }

  // A place for each temporary, above those that are alive with it, the large and long ones first.
  _stack() {
    const order = [...this.temporaries].sort((a, b) => b.bytes * (b.last - b.first + 1) - a.bytes * (a.last - a.first + 1));
    this.shown = order.slice(0, 1500);
    const placed = [];
    for (const array of this.shown) {
      const others = placed.filter((other) => other.first <= array.last && other.last >= array.first).sort((a, b) => a.offset - b.offset);
      let offset = 0;
      for (const other of others) {
        if (other.offset - offset >= array.bytes) break;
        offset = Math.max(offset, other.offset + other.bytes);
      }
      array.offset = offset;
      placed.push(array);
    }
    this.top = placed.reduce((top, array) => Math.max(top, array.offset + array.bytes), this.most);
  }

  _step(k) {
    const thunk = this.plan.thunks[k];
    const share = this.live[k] / this.most;
    return [
      element("span", { class: "number" }, String(k)),
      element("span", { class: "title", style: `padding-left:${thunk.depth}em` }, `${thunk.opcode} %${this.plan.title(thunk).replaceAll(", ", ", %")}`),
      element("span", { class: "bar", style: `--share:${share}` }),
      element("span", { class: "count" }, bytesText(this.live[k])),
    ];
  }

  move(k, follow = false) {
    this.position = Math.max(0, Math.min(this.plan.thunks.length - 1, k));
    this.canvas.setAttribute("aria-valuemax", String(this.plan.thunks.length - 1));
    this.canvas.setAttribute("aria-valuenow", String(this.position));
    this.draw();
    this._table();
    if (follow) {
      const row = this.plan.row(this.plan.thunks[this.position]);
      if (row !== undefined) this.app.selectPlanned(row);
    }
  }

  _table() {
    const k = this.position;
    if (!this.plan.thunks.length) return;
    const thunk = this.plan.thunks[k];
    const alive = this.temporaries.filter((array) => array.first <= k && array.last >= k).sort((a, b) => b.bytes - a.bytes);
    const total = this.live[k];
    byId("memory-title").textContent = `Step ${k}${k === this.peak ? ", the peak" : ""}: ${bytesText(total)} in ${countText(alive.length, "temporary array")}`;
    byId("memory-note").textContent = `${bytesText(this.base)} of arguments, results and constants are there all the time.${this.plan.hasScratch ? "" : " What kernels need as scratch memory is not counted."}`;
    const reads = new Set(thunk.reads.map((number) => this.plan.arrays[number]));
    const writes = new Set(thunk.writes.map((number) => this.plan.arrays[number]));
    const use = (array) => this.plan.arrays.find((each) => each.values === array.values);
    const row = (array) => {
      const known = use(array);
      const what = writes.has(known) ? "written" : reads.has(known) ? "read" : "";
      const life = array.last < 0 || array.kind === "argument" ? "whole run" : `${array.first} – ${array.last}`;
      return element(
        "tr",
        {},
        element("td", { class: "right" }, bytesText(array.bytes)),
        element("td", { class: "right" }, array.last < 0 ? "" : percentText(array.bytes / Math.max(1, total))),
        element("td", {}, array.kind),
        element("td", {}, life),
        element("td", {}, what),
        element("td", {}, this._values(array)),
      );
    };
    const head = element("tr", {}, ...["bytes", "share", "kind", "alive", "now", "arrays in this memory"].map((name, n) => element("th", { scope: "col", class: n < 2 ? "right" : "" }, name)));
    const fixed = [...this.fixed].sort((a, b) => b.bytes - a.bytes);
    byId("memory-arrays").replaceChildren(element("thead", {}, head), element("tbody", {}, ...alive.slice(0, 200).map(row), ...fixed.slice(0, 50).map(row)));
  }

  _values(array) {
    const { program } = this.plan;
    const state = program.state(program.planned);
    const parts = [];
    for (const [number, text, shape] of array.values.slice(0, 4)) {
      const found = [...state.computations.values()].map((computation) => computation.byName.get(number)).find((row) => row !== undefined);
      const label = `${program.strings[text]} ${program.strings[shape]}`;
      parts.push(found === undefined ? element("span", {}, label) : element("button", { type: "button", class: "inline", onclick: () => this.app.selectPlanned(found) }, label));
    }
    if (array.values.length > 4) parts.push(element("span", { class: "note" }, `and ${array.values.length - 4} more`));
    return element("span", { class: "values" }, ...parts);
  }

  // -- the chart
  draw() {
    if (!this.plan || !this.canvas.clientWidth) return;
    const { context, width, height } = sharpContext(this.canvas);
    const { palette } = this.app;
    const count = Math.max(1, this.plan.thunks.length);
    const [left, bottom, top] = [68, 22, 12];
    const x = (k) => left + ((width - left - 8) * k) / count;
    const y = (bytes) => height - bottom - ((height - bottom - top) * bytes) / Math.max(1, this.top);
    this.scale = { x, y, left, width };
    context.font = `11px ${SANS}`;
    context.textBaseline = "middle";
    for (let k = 0; k <= 4; k++) {
      const bytes = (this.top * k) / 4;
      context.strokeStyle = palette.border;
      context.beginPath();
      context.moveTo(left, y(bytes));
      context.lineTo(width - 8, y(bytes));
      context.stroke();
      context.fillStyle = palette.muted;
      context.textAlign = "right";
      context.fillText(bytesText(Math.round(bytes)), left - 8, y(bytes));
    }
    context.textAlign = "center";
    for (let k = 0; k <= 4; k++) context.fillText(String(Math.round((count * k) / 4)), Math.min(width - 16, x((count * k) / 4)), height - 9);
    const hues = ["product", "reduction", "movement", "control", "collective", "input"];
    this.shown.forEach((array, n) => {
      const [x1, x2, y1, y2] = [x(array.first), x(array.last + 1), y(array.offset + array.bytes), y(array.offset)];
      const isAlive = array.first <= this.position && array.last >= this.position;
      context.globalAlpha = isAlive ? 0.95 : 0.42;
      context.fillStyle = palette[hues[n % hues.length]];
      context.fillRect(x1, y1, Math.max(1, x2 - x1 - 0.5), Math.max(1, y2 - y1 - 0.5));
      if (x2 - x1 > 60 && y2 - y1 > 13) {
        context.globalAlpha = 1;
        context.fillStyle = palette.surface;
        context.textAlign = "left";
        context.font = `10.5px ${MONO}`;
        context.fillText(shortened(array.names[0] || "", Math.floor((x2 - x1 - 8) / 6.4)), x1 + 4, (y1 + y2) / 2);
      }
    });
    context.globalAlpha = 1;
    this._line(context, x, y, count);
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    const here = (x(this.position) + x(this.position + 1)) / 2;
    context.beginPath();
    context.moveTo(here, top);
    context.lineTo(here, height - bottom);
    context.stroke();
  }

  // All that is alive; where several steps have one pixel, the most of them.
  _line(context, x, y, count) {
    const step = Math.max(1, Math.ceil(count / (x(count) - x(0))));
    context.strokeStyle = this.app.palette.text;
    context.lineWidth = step > 1 ? 0.8 : 1.2;
    context.beginPath();
    for (let k = 0; k < this.live.length; k += step) {
      const bytes = this.live.slice(k, k + step).reduce((most, each) => Math.max(most, each), 0);
      context.lineTo(x(k), y(bytes));
      context.lineTo(x(Math.min(count, k + step)), y(bytes));
    }
    context.stroke();
  }

  _at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const count = this.plan.thunks.length;
    const k = Math.floor(((event.clientX - left - this.scale.left) / (this.scale.width - this.scale.left - 8)) * count);
    return { k: Math.max(0, Math.min(count - 1, k)), y: event.clientY - top };
  }

  _point(event) {
    const { k } = this._at(event);
    this.move(k);
    this.steps.move(k);
  }

  _hover(event) {
    if (!this.scale) return;
    const { k, y } = this._at(event);
    const found = this.shown.find((array) => array.first <= k && array.last >= k && y >= this.scale.y(array.offset + array.bytes) && y <= this.scale.y(array.offset));
    this.canvas.title = found ? `${bytesText(found.bytes)}, steps ${found.first} to ${found.last}: ${found.names.slice(0, 4).join(", ")}` : "";
  }

  _key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(this.position + steps[event.key]);
    else if (event.key === "p") this.move(this.peak);
    else return;
    this.steps.move(this.position);
    event.preventDefault();
  }
}

// The index of the largest number that is not greater.
function nearest(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
