"use strict";
// The page as a whole: which state, which view, what is selected, and the keys that work everywhere.

const VIEWS = ["graph", "passes", "memory", "profile"];

class App {
  constructor(data) {
    this.program = new Program(data);
    this.row = null;
    this.matches = null;
    this.marks = data.states.length > 2;
    this.heat = null;
    this.state = this.program.state(0);
    this._theme();
    this.graphView = new GraphView(this, byId("canvas"));
    this.listView = new ListView(this);
    this.inspector = new Inspector(this);
    this.profileView = new ProfileView(this);
    this.passesView = new PassesView(this);
    this.memoryView = null; // made when it is first looked at
    this._header();
    byId("marks").checked = this.marks;
    this.setView("graph");
    this.setState(0);
    this.inspector.show(null, null);
    document.addEventListener("keydown", (event) => this._key(event));
  }

  // -- header
  _header() {
    byId("title").textContent = this.program.data.name;
    const select = byId("state");
    select.replaceChildren(...this.program.data.states.map(({ title }, k) => element("option", { value: k }, `${k ? `${k}. ` : ""}${title}${k && k === this.program.planned && title !== "compiled" ? " (compiled)" : ""}`)));
    select.addEventListener("change", () => this.setState(Number(select.value)));
    byId("before").addEventListener("click", () => this.setState(this.state.number - 1));
    byId("after").addEventListener("click", () => this.setState(this.state.number + 1));
    for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => this.setView(view));
    byId("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const next = VIEWS[(VIEWS.indexOf(this.view) + step + VIEWS.length) % VIEWS.length];
      this.setView(next);
      byId(`tab-${next}`).focus();
    });
    byId("theme").addEventListener("click", () => this.switchTheme());
    byId("help").addEventListener("click", () => byId("keys").showModal());
    byId("close-keys").addEventListener("click", () => byId("keys").close());
    byId("toggle-list").addEventListener("click", () => this._side("list"));
    byId("toggle-details").addEventListener("click", () => this._side("details"));
    for (const option of ["kernels", "scopes", "constants", "marks"]) byId(option).addEventListener("change", (event) => this.setOption(option, event.target.checked));
    byId("focus").addEventListener("change", (event) => this.setFocus(Number(event.target.value)));
    byId("zoom-in").addEventListener("click", () => this.graphView.zoom(1.25));
    byId("zoom-out").addEventListener("click", () => this.graphView.zoom(0.8));
    byId("fit").addEventListener("click", () => this.graphView.fit({ whole: true }));
    byId("fold").addEventListener("click", () => this.graphView.foldAll());
    byId("unfold").addEventListener("click", () => this.graphView.unfoldOnce());
  }

  _side(name) {
    const { body } = document;
    const isShown = body.classList.toggle(`show-${name}`);
    body.classList.remove(name === "list" ? "show-details" : "show-list");
    byId(`toggle-${name}`).setAttribute("aria-expanded", String(isShown));
    byId(name === "list" ? "toggle-details" : "toggle-list").setAttribute("aria-expanded", "false");
    if (isShown && name === "list") byId("search").focus();
  }

  // -- light and dark
  // As the system has it, until it is chosen here.
  _theme() {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => this.setTheme(system.matches ? "dark" : "light");
    system.addEventListener("change", () => {
      if (!this.isThemeChosen) follow();
    });
    follow();
  }

  get isDark() {
    return document.documentElement.dataset.theme === "dark";
  }

  switchTheme() {
    this.isThemeChosen = true;
    this.setTheme(this.isDark ? "light" : "dark");
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.palette = paletteOf(document.documentElement);
    byId("theme").setAttribute("aria-label", this.isDark ? "Light colours" : "Dark colours");
    byId("theme").textContent = this.isDark ? "☀" : "☾";
    this.graphView?.changedLook();
    this.memoryView?.draw();
  }

  // -- views and states
  setView(view) {
    this.view = view;
    for (const each of VIEWS) {
      const isShown = each === view;
      byId(each).hidden = !isShown;
      byId(`tab-${each}`).setAttribute("aria-selected", String(isShown));
      byId(`tab-${each}`).tabIndex = isShown ? 0 : -1;
    }
    if (view === "memory" && !this.memoryView) this.memoryView = new MemoryView(this);
    if (view === "graph") this.graphView.draw();
    if (view === "passes") this.passesView.show(this.state);
  }

  setState(number) {
    if (number < 0 || number > this.program.last) return;
    this.state = this.program.state(number);
    byId("state").value = String(number);
    byId("before").disabled = number === 0;
    byId("after").disabled = number === this.program.last;
    byId("kernels").disabled = number !== this.program.planned;
    byId("marks").disabled = number === 0;
    this.heat = number === this.program.planned ? this.profileView.heat() : null;
    this._keepSelection();
    this.listView.find();
    this.graphView.selected = null;
    this.graphView.show(this.state);
    if (this.row !== null) this.graphView.reveal(this.row);
    if (this.view === "passes") this.passesView.show(this.state);
    this.inspector.show(this.row, null);
    this.announce(`${this.state.title}, ${countText(this.state.rows.size, "instruction")}`);
  }

  // The same name is selected in another state, if it is there.
  _keepSelection() {
    if (this.row === null || this.state.rows.has(this.row)) return;
    const { columns } = this.program;
    this.row = this.state.find(columns.computation[this.row], columns.name[this.row]) ?? null;
  }

  setOption(name, isOn) {
    byId(name).checked = isOn;
    if (name === "marks") {
      this.marks = isOn;
      this.listView.list.draw();
    } else this.graphView.options[name] = isOn;
    this.graphView.show(this.state);
    this.inspector.show(this.row, null);
  }

  setFocus(steps) {
    if (steps && this.row === null) {
      byId("focus").value = "0";
      this.announce("select an instruction first");
      return;
    }
    this.graphView.focus = steps;
    byId("focus").value = String(steps);
    this.graphView.show(this.state);
    if (this.row !== null) this.graphView.reveal(this.row);
  }

  showChanges() {
    this.setOption("marks", true);
    this.setView("graph");
  }

  setMatches(matches) {
    this.matches = matches;
    this.graphView.changedLook();
  }

  // -- selection
  // Selects an instruction, and shows it in the graph.
  select(row, { from = null } = {}) {
    if (this.view !== "graph" && from !== this.listView) this.setView("graph");
    this.selected(row, null);
    this.graphView.reveal(row);
    if (from !== this.listView) this.listView.showSelected(row);
  }

  // An instruction of the state that is scheduled.
  selectPlanned(row) {
    if (this.state.number !== this.program.planned) this.setState(this.program.planned);
    const view = this.view;
    this.select(row);
    if (view === "memory") this.setView(view);
  }

  // Something was selected in the graph.
  selected(row, item) {
    this.row = row;
    this.inspector.show(row, item);
    if (row !== null) {
      this.listView.showSelected(row);
      this.announce(`%${this.program.name(row)}, ${this.program.opcode(row)}, ${shortened(this.program.shape(row), 60)}`);
    } else if (item) this.announce(`${item.title}, ${countText(item.rows.length, "instruction")}, ${item.open ? "unfolded" : "folded"}`);
  }

  announce(text) {
    byId("live").textContent = text;
  }

  // -- keys
  _key(event) {
    const isTyping = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && !byId("keys").open) {
      document.body.classList.remove("show-list", "show-details");
      if (event.target === byId("search")) {
        if (byId("search").value) {
          byId("search").value = "";
          this.listView.find();
        } else byId("canvas").focus();
      }
      return;
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      "/": () => {
        if (getComputedStyle(byId("list")).display === "none") this._side("list");
        byId("search").focus();
        byId("search").select();
      },
      "?": () => byId("keys").showModal(),
      1: () => this.setView("graph"),
      2: () => this.setView("passes"),
      3: () => this.setView("memory"),
      4: () => this.setView("profile"),
      "[": () => this.setState(this.state.number - 1),
      "]": () => this.setState(this.state.number + 1),
      f: () => this.setFocus(this.graphView.focus ? 0 : 2),
      t: () => this.switchTheme(),
      c: () => this.setOption("marks", !this.marks),
      u: () => this.graphView.unfoldOnce(),
      z: () => this.graphView.foldAll(),
    };
    if (!actions[event.key] || byId("keys").open) return;
    event.preventDefault();
    actions[event.key]();
  }

  // -- what the page says of itself
  drawnFirst() {
    if (this.opened === undefined) this.opened = performance.now() - this.began;
  }

  snapshot() {
    const { graphView } = this;
    return {
      view: this.view,
      state: this.state.title,
      states: this.program.data.states.map(({ title }) => title),
      dark: this.isDark,
      selected: this.row === null ? null : this.program.name(this.row),
      found: this.listView.rows.length,
      boxes: graphView.scene.boxes.map((box) => (box.port ? `port ${box.port.text}` : box.item instanceof InstructionItem ? this.program.name(box.item.row) : `region ${box.item.title}`)),
      edges: graphView.scene.edges.length,
      drawn: graphView.drawn,
      opened: this.opened,
      frames: [...graphView.frames],
    };
  }
}

window.xloomShow = (async () => {
  const began = performance.now();
  const place = byId("data");
  const data = await unpacked(place.textContent);
  place.remove();
  App.prototype.began = began;
  return new App(data);
})();
