"use strict";
// The passes, and line by line what each did.

class PassesView {
  constructor(app) {
    this.app = app;
    this.title = byId("pass-title");
    this.lines = [];
    const { states } = app.program.data;
    this.steps = new VirtualList(byId("steps"), {
      height: 44,
      label: "Passes",
      make: (k) => this._step(states[k], k),
      act: (k) => app.setState(k),
      choose: (k) => app.setState(k),
    });
    this.changes = new VirtualList(byId("changes"), {
      height: 22,
      label: "Changes",
      make: (k) => this._line(this.lines[k]),
      act: (k) => this._open(this.lines[k]),
    });
    byId("pass-graph").addEventListener("click", () => app.showChanges());
  }

  _step({ title }, k) {
    const { added, changed, removed } = this._counts(k);
    const count = (name, sign, number) => (number ? element("span", { class: name, title: `${number} ${name}` }, `${sign}${number}`) : null);
    return [
      element("span", { class: "number" }, k ? String(k) : ""),
      element("span", { class: "title" }, title),
      element("span", { class: "counts" }, count("added", "+", added), count("changed", "~", changed), count("removed", "−", removed)),
    ];
  }

  _counts(k) {
    if (!k) return { added: 0, changed: 0, removed: 0 };
    this.known ||= new Map();
    if (!this.known.has(k)) {
      const { columns } = this.app.program;
      const { added, removed } = this.app.program.data.states[k];
      const key = (row) => `${columns.computation[row]} ${columns.name[row]}`;
      const before = new Set(removed.map(key));
      const changed = added.filter((row) => before.has(key(row))).length;
      this.known.set(k, { added: added.length - changed, changed, removed: removed.length - changed });
    }
    return this.known.get(k);
  }

  show(state) {
    const { program } = this.app;
    this.lines = [];
    const places = new Map(state.order.map((row, k) => [row, k]));
    const byPlace = (a, b) => (places.get(a) ?? Infinity) - (places.get(b) ?? Infinity);
    const changed = [...state.old.keys()].sort(byPlace);
    const added = [...state.marks].filter(([, mark]) => mark === "added").map(([row]) => row).sort(byPlace);
    for (const row of state.removed) this.lines.push({ sign: "−", kind: "removed", row, text: program.hlo(row) });
    for (const row of changed) {
      this.lines.push({ sign: "~", kind: "changed before", row, text: program.hlo(state.old.get(row)) });
      this.lines.push({ sign: " ", kind: "changed", row, text: program.hlo(row) });
    }
    for (const row of added) this.lines.push({ sign: "+", kind: "added", row, text: program.hlo(row) });
    const counts = this._counts(state.number);
    this.title.textContent = state.number
      ? `${state.title}: ${counts.added} added, ${counts.changed} changed, ${counts.removed} removed`
      : `${state.title}: ${countText(state.rows.size, "instruction")}`;
    this.steps.show(program.data.states.length, state.number);
    this.changes.show(this.lines.length);
  }

  _line({ sign, kind, text }) {
    return [element("span", { class: `line ${kind}` }, `${sign} ${shortened(text, 400)}`)];
  }

  _open({ row, kind }) {
    if (kind === "removed") this.app.selected(row, null);
    else this.app.select(row);
  }
}
