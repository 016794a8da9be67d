"use strict";
// All that is known of what is selected.

const MOST_LISTED = 60;

class Inspector {
  constructor(app) {
    this.app = app;
    this.place = byId("inspector");
  }

  show(row, item) {
    this.place.scrollTop = 0;
    if (row !== null) this.place.replaceChildren(...this._instruction(row));
    else if (item) this.place.replaceChildren(...this._region(item));
    else this.place.replaceChildren(...this._program());
  }

  _section(title, ...content) {
    return element("section", {}, element("h3", {}, title), ...content);
  }

  _facts(facts) {
    const shown = facts.filter(([, value]) => value !== "" && value !== null && value !== undefined);
    return element("dl", {}, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  _link(row, state = this.app.state) {
    const { program } = this.app;
    const isHere = state.rows.has(row);
    return element(
      isHere ? "button" : "span",
      { class: "link", ...(isHere ? { type: "button", onclick: () => this.app.select(row) } : {}) },
      element("i", { class: `dot ${program.family(row)}`, "aria-hidden": "true" }),
      element("span", { class: "name" }, `%${program.name(row)}`),
      element("span", { class: "opcode" }, program.opcode(row)),
      element("span", { class: "shape" }, program.shape(row)),
    );
  }

  _links(title, rows) {
    if (!rows.length) return null;
    const shown = rows.slice(0, MOST_LISTED).map((row) => element("li", {}, this._link(row)));
    if (rows.length > MOST_LISTED) shown.push(element("li", { class: "note" }, `and ${rows.length - MOST_LISTED} more`));
    return this._section(`${title} (${rows.length})`, element("ul", { class: "links" }, ...shown));
  }

  // -- an instruction
  _instruction(row) {
    const { program, state } = this.app;
    const computation = program.text("computation", row);
    const operands = state.operands(row);
    return [
      element("h2", {}, element("i", { class: `dot ${program.family(row)}`, "aria-hidden": "true" }), `%${program.name(row)}`),
      this._facts([
        ["opcode", program.opcode(row)],
        ["shape", shortened(program.shape(row), 300)],
        ["bytes", program.bytes(row) ? bytesText(program.bytes(row)) : ""],
        ["in", `%${computation}${program.columns.root[row] ? ", its root" : ""}`],
        ["value", program.text("value", row)],
        ["op_name", program.text("op_name", row)],
      ]),
      this._change(row),
      this._kernel(row),
      this._source(row),
      this._links("Operands", operands),
      this._links("Users", state.users(row)),
      this._links("Runs after", state.predecessors(row)),
      this._links("Computation's callers", state.callers(program.columns.computation[row])),
      this._hlo(row),
    ].filter((part) => part);
  }

  _change(row) {
    if (!this.app.marks) return null;
    const { state, program } = this.app;
    const mark = state.marks.get(row);
    if (!mark) return null;
    if (mark !== "changed") return this._section(`${mark} by ${state.title}`);
    return this._section(`changed by ${state.title}; it was`, element("pre", { class: "removed" }, program.hlo(state.old.get(row))));
  }

  _kernel(row) {
    const { program, state } = this.app;
    if (state.number !== program.planned) return null;
    const thunks = program.plan.thunksOf(row);
    if (!thunks.length) return null;
    if (thunks.length > 1) return this._section("Kernels", element("p", {}, `computed where it is used, in ${thunks.length} kernels`));
    const [thunk] = thunks;
    const measured = this.app.profileView.kernelOf(thunk);
    const facts = [["step", String(thunk.position)], ["makes", program.plan.title(thunk)]];
    if (measured) facts.push(...kernelFacts(measured));
    return this._section("Kernel", this._facts(facts));
  }

  _source(row) {
    const frames = this.app.program.stack(row);
    if (!frames.length) return null;
    const lines = frames.map(({ file, function: name, line }) =>
      element("li", {}, element("span", { class: "path" }, `${file}:${line}`), name ? element("span", { class: "note" }, ` ${name}`) : null),
    );
    return this._section("Source", element("ol", { class: "stack" }, ...lines));
  }

  _hlo(row) {
    const text = this.app.program.hlo(row);
    const copy = element("button", { type: "button", class: "small" }, "Copy");
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        this.app.announce("copied");
      } catch {
        getSelection().selectAllChildren(pre);
        this.app.announce("selected; copy it with the keyboard");
      }
    });
    const pre = element("pre", {}, text);
    return element("section", {}, element("h3", {}, "HLO ", copy), pre);
  }

  // -- a region
  _region(item) {
    const { program } = this.app;
    const counts = new Map();
    for (const row of item.rows) counts.set(program.opcode(row), (counts.get(program.opcode(row)) || 0) + 1);
    const opcodes = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 20);
    const names = { kernel: "kernel", scope: "scope", part: "part of a computation", bundle: "of one opcode and the same operands", computation: "computation", near: "neighbourhood" };
    const facts = [["kind", names[item.kind]], ["instructions", item.rows.length.toLocaleString("en")]];
    if (item.thunk) {
      facts.push(["step", String(item.thunk.position)]);
      const measured = this.app.profileView.kernelOf(item.thunk);
      if (measured) facts.push(...kernelFacts(measured));
    }
    const fold = element("button", { type: "button", onclick: () => this.app.graphView.toggle(item) }, item.open ? "Fold" : "Unfold");
    return [
      element("h2", {}, item.title),
      this._facts(facts),
      item.canOpen && item.parent ? element("p", {}, fold) : null,
      this._section("Opcodes", this._bars(opcodes)),
    ].filter((part) => part);
  }

  _bars(counts) {
    const most = Math.max(...counts.map(([, count]) => count), 1);
    const rows = counts.map(([name, count]) =>
      element("li", {}, element("span", {}, name), element("span", { class: "bar", style: `--share:${count / most}` }), element("span", { class: "count" }, String(count))),
    );
    return element("ul", { class: "bars" }, ...rows);
  }

  // -- the program, where nothing is selected
  _program() {
    const { program, state } = this.app;
    const counts = new Map();
    for (const row of state.rows) counts.set(program.opcode(row), (counts.get(program.opcode(row)) || 0) + 1);
    const opcodes = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 20);
    const entry = state.computations.get(state.entry);
    return [
      element("h2", {}, program.data.name),
      this._facts([
        ["state", state.title],
        ["instructions", state.rows.size.toLocaleString("en")],
        ["computations", state.computations.size.toLocaleString("en")],
        ["result", shortened(program.shape(entry.root), 160)],
      ]),
      program.data.why_no_plan ? this._section("Not compiled", element("p", { class: "warning" }, program.data.why_no_plan)) : null,
      this._section("Opcodes", this._bars(opcodes)),
      this._section("Look closer", element("p", { class: "note" }, "Click a box to select it, double-click to unfold it. Press ? for the keys.")),
    ].filter((part) => part);
  }
}

function kernelFacts(kernel) {
  return [
    ["time", `${timeText(kernel.total)} a run${kernel.runs === 1 ? "" : `, in ${Number(kernel.runs.toPrecision(3))}`}`],
    ["bytes", `${bytesText(kernel.bytes)}, ${bytesText(kernel.bytes / kernel.seconds)}/s`],
    ["operations", kernel.flops ? `${(kernel.flops / kernel.seconds / 1e9).toPrecision(3)} GFLOP/s` : ""],
    ["of the limit", percentText(kernel.limit)],
  ];
}

function percentText(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}
