"use strict";
// Kernels by their time, and where in the program that time goes.

class ProfileView {
  constructor(app) {
    this.app = app;
    this.data = app.program.profile;
    this.by = "scope";
    this.zoomed = null;
    if (!this.data) {
      byId("profile").replaceChildren(element("p", { class: "empty" }, "The program was not run. `xloom show --profile` measures its kernels."));
      return;
    }
    this.total = this.data.kernels.reduce((sum, kernel) => sum + kernel.total, 0);
    this.byName = new Map(this.data.kernels.map((kernel) => [kernel.name, kernel]));
    for (const button of document.querySelectorAll("[data-flame]")) {
      button.addEventListener("click", () => {
        this.by = button.dataset.flame;
        this.zoomed = null;
        this.draw();
      });
    }
    const { bandwidth, peak, kernels } = this.data;
    byId("profile-title").textContent = `${timeText(this.total)} a run, in ${countText(kernels.length, "kernel")}`;
    byId("profile-note").textContent = `This machine's limits: ${(bandwidth / 1e9).toPrecision(3)} GB/s and ${(peak / 1e9).toPrecision(3)} GFLOP/s.`;
    this.table = new VirtualList(byId("kernel-times"), {
      label: "Kernels by time",
      make: (k) => this._kernel(kernels[k]),
      act: (k) => this._open(kernels[k]),
    });
    this.table.show(kernels.length);
    this.draw();
  }

  kernelOf(thunk) {
    return this.byName?.get(this.app.program.plan.title(thunk));
  }

  // The share of the time that each instruction's kernel takes, at the first instruction that it makes.
  heat() {
    if (!this.data || !this.app.program.plan) return null;
    const heat = new Map();
    for (const thunk of this.app.program.plan.thunks) {
      const kernel = this.kernelOf(thunk);
      if (kernel) heat.set(this.app.program.plan.row(thunk), kernel.total / this.total);
    }
    return heat;
  }

  _kernel(kernel) {
    const cell = (name, text) => element("span", { class: name }, text);
    return [
      element("span", { class: "title", title: kernel.name }, `%${kernel.name.replaceAll(", ", ", %")}`),
      cell("opcode", kernel.opcode),
      element("span", { class: "bar", style: `--share:${kernel.total / Math.max(this.data.kernels[0].total, 1e-12)}` }),
      cell("count", percentText(kernel.total / this.total)),
      cell("count wide", `${kernel.runs === 1 ? "" : `${Number(kernel.runs.toPrecision(3))} × `}${timeText(kernel.seconds)}`),
      cell("count few", bytesText(kernel.bytes)),
      cell("count few", (kernel.bytes / kernel.seconds / 1e9).toPrecision(3)),
      cell("count few", (kernel.flops / kernel.seconds / 1e9).toPrecision(3)),
      cell("count", percentText(kernel.limit)),
    ];
  }

  _open(kernel) {
    const row = this._row(kernel);
    if (row !== undefined) this.app.selectPlanned(row);
  }

  _thunk(kernel) {
    if (!this.thunks) {
      const { plan } = this.app.program;
      this.thunks = new Map(plan ? plan.thunks.map((thunk) => [plan.title(thunk), thunk]) : []);
    }
    return this.thunks.get(kernel.name);
  }

  _row(kernel) {
    const thunk = this._thunk(kernel);
    return thunk && this.app.program.plan.row(thunk);
  }

  // -- the flame graph
  _path(kernel) {
    const { program } = this.app;
    const row = this._row(kernel);
    if (this.by === "scope") {
      const name = kernel.op_name || (row === undefined ? "" : program.text("op_name", row));
      return name ? name.split("/") : ["no op_name"];
    }
    const frames = row === undefined ? [] : program.stack(row).reverse();
    return frames.length ? frames.map(({ file, function: name, line }) => `${name || file.split("/").pop()}:${line}`) : ["no source"];
  }

  _tree() {
    const root = { name: "all", total: 0, children: new Map(), kernels: [] };
    for (const kernel of this.data.kernels) {
      let node = root;
      root.total += kernel.total;
      for (const name of [...this._path(kernel), `%${kernel.name.split(", ")[0]}`]) {
        if (!node.children.has(name)) node.children.set(name, { name, total: 0, children: new Map(), kernels: [], parent: node });
        node = node.children.get(name);
        node.total += kernel.total;
      }
      node.kernels.push(kernel);
    }
    return root;
  }

  draw() {
    if (!this.data) return;
    for (const button of document.querySelectorAll("[data-flame]")) button.setAttribute("aria-pressed", String(button.dataset.flame === this.by));
    const top = this.zoomed || this._tree();
    const bars = [];
    const add = (node, left, width, depth) => {
      if (width < 0.0015 || depth > 40) return;
      const label = `${node.name}  ${timeText(node.total)}`;
      bars.push(
        element(
          "button",
          {
            type: "button",
            class: `flame${width > 0.02 ? "" : " thin"} ${["product", "reduction", "movement", "control"][hashed(node.name) % 4]}`,
            style: `left:${100 * left}%;width:${100 * width}%;top:${depth * 22}px`,
            title: `${node.name}\n${timeText(node.total)}, ${percentText(node.total / this.total)}`,
            onclick: () => this._zoom(node),
          },
          width > 0.02 ? label : "",
        ),
      );
      let at = left;
      for (const child of [...node.children.values()].sort((a, b) => b.total - a.total)) {
        const share = (width * child.total) / node.total;
        add(child, at, share, depth + 1);
        at += share;
      }
    };
    add(top, 0, 1, 0);
    const depth = bars.reduce((most, bar) => Math.max(most, Number.parseInt(bar.style.top, 10)), 0);
    const flames = byId("flames");
    flames.style.height = `${depth + 26}px`;
    flames.replaceChildren(...bars);
  }

  _zoom(node) {
    if (node.kernels.length && !node.children.size) return this._open(node.kernels[0]);
    this.zoomed = node === this.zoomed ? node.parent || null : node;
    return this.draw();
  }
}

function hashed(text) {
  let value = 7;
  for (let k = 0; k < text.length; k++) value = (value * 31 + text.charCodeAt(k)) >>> 0;
  return value >>> 3;
}
