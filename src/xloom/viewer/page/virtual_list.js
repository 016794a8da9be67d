"use strict";
// A list of any length, of which only what shows has elements.

class VirtualList {
  // make(index) gives the children of a row; act(index) is done on a click or Enter.
  constructor(container, { height = 24, label, make, act, choose = () => {} }) {
    Object.assign(this, { container, height, make, act, choose });
    this.length = 0;
    this.current = -1;
    this.id = container.id;
    container.setAttribute("role", "listbox");
    container.setAttribute("aria-label", label);
    container.tabIndex = 0;
    this.inner = element("div", { class: "rows" });
    container.append(this.inner);
    container.addEventListener("scroll", () => this.draw(), { passive: true });
    container.addEventListener("keydown", (event) => this._key(event));
    container.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (!row) return;
      this.move(Number(row.dataset.index));
      this.act(this.current);
    });
    new ResizeObserver(() => this.draw()).observe(container);
  }

  show(length, current = -1) {
    this.length = length;
    this.current = Math.min(current, length - 1);
    this.inner.style.height = `${length * this.height}px`;
    this.container.scrollTop = Math.max(0, (this.current - 3) * this.height);
    this.draw();
  }

  draw() {
    const { container, height } = this;
    const first = Math.max(0, Math.floor(container.scrollTop / height) - 4);
    const last = Math.min(this.length, Math.ceil((container.scrollTop + container.clientHeight) / height) + 4);
    const rows = [];
    for (let k = first; k < last; k++) {
      rows.push(
        element(
          "div",
          {
            class: `row${k === this.current ? " current" : ""}`,
            role: "option",
            id: `${this.id}-${k}`,
            "data-index": k,
            "aria-selected": String(k === this.current),
            "aria-posinset": k + 1,
            "aria-setsize": this.length,
            style: `top:${k * height}px;height:${height}px`,
          },
          ...this.make(k),
        ),
      );
    }
    this.inner.replaceChildren(...rows);
    if (this.current >= first && this.current < last) container.setAttribute("aria-activedescendant", `${this.id}-${this.current}`);
    else container.removeAttribute("aria-activedescendant");
  }

  move(index) {
    if (!this.length) return;
    this.current = Math.max(0, Math.min(this.length - 1, index));
    const top = this.current * this.height;
    const { container } = this;
    if (top < container.scrollTop) container.scrollTop = top;
    else if (top + this.height > container.scrollTop + container.clientHeight) container.scrollTop = top + this.height - container.clientHeight;
    this.draw();
  }

  _key(event) {
    const page = Math.max(1, Math.floor(this.container.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.length, End: this.length };
    if (event.key in steps) {
      this.move(this.current + steps[event.key]);
      this.choose(this.current);
    } else if (event.key === "Enter" && this.current >= 0) this.act(this.current);
    else return;
    event.preventDefault();
  }
}
