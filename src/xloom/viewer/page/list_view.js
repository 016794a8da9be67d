"use strict";
// The list of instructions: all of them, or those that a search finds.

class ListView {
  constructor(app) {
    this.app = app;
    this.search = new Search(app.program);
    this.rows = [];
    this.input = byId("search");
    this.count = byId("found");
    this.list = new VirtualList(byId("instructions"), {
      label: "Instructions",
      make: (k) => this._row(this.rows[k]),
      act: (k) => app.select(this.rows[k], { from: this }),
      choose: (k) => app.select(this.rows[k], { from: this }),
    });
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        if (!this.rows.length) return;
        this.list.move(0);
        if (event.key === "Enter") this.list.act(0);
        this.list.container.focus();
      }
    });
  }

  _row(row) {
    const { program } = this.app;
    const mark = this.app.marks ? this.app.state.marks.get(row) : null;
    return [
      element("i", { class: `dot ${program.family(row)}`, "aria-hidden": "true" }),
      element("span", { class: `name ${mark || ""}` }, `%${program.name(row)}`),
      element("span", { class: "opcode" }, program.opcode(row)),
      element("span", { class: "shape" }, program.shape(row)),
    ];
  }

  // Of a new state, or a new text.
  find() {
    const all = this.app.state.order;
    const found = this.search.find(all, this.input.value);
    this.rows = found || all;
    this.app.setMatches(found ? new Set(found) : null);
    this.count.textContent = found ? `${found.length.toLocaleString("en")} of ${countText(all.length, "instruction")}` : countText(all.length, "instruction");
    this.list.show(this.rows.length, this.rows.indexOf(this.app.row));
  }

  showSelected(row) {
    const k = this.rows.indexOf(row);
    if (k >= 0) this.list.move(k);
    else {
      this.list.current = -1;
      this.list.draw();
    }
  }
}
