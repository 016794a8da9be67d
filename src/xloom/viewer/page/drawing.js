"use strict";
// Draws what of a scene is on the screen.

const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const SANS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
const READABLE = 0.5; // the scale from which on text can be read
const TITLES = 0.22;

const COLOURS = [
  "bg", "surface", "raised", "region", "border", "text", "muted", "accent", "edge", "operand", "user", "added", "changed",
  "removed", "match", "input", "product", "reduction", "control", "collective", "external", "movement", "elementwise",
];

function paletteOf(root) {
  const style = getComputedStyle(root);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const BRIEF = {
  compare: /direction=(\w+)/,
  "get-tuple-element": /index=(\d+)/,
  "custom-call": /custom_call_target="([^"]*)"/,
  reduce: /dimensions=(\{[\d,]*\})/,
  broadcast: /dimensions=(\{[\d,]*\})/,
  transpose: /dimensions=(\{[\d,]*\})/,
  concatenate: /dimensions=(\{[\d,]*\})/,
  fusion: /kind=(\w+)/,
  slice: /slice=(\{[^}]*\})/,
};

// The opcode with what it most depends on, and the name.
function instructionLines(program, state, row, constants) {
  const opcode = program.opcode(row);
  const found = BRIEF[opcode]?.exec(program.text("attributes", row));
  const parts = [opcode];
  if (program.text("value", row)) parts.push(program.text("value", row));
  if (found) parts.push(found[1]);
  if (!constants) {
    for (const operand of state.operands(row)) {
      if (program.opcode(operand) === "constant") parts.push(program.text("value", operand));
    }
  }
  return [shortened(parts.join(" "), 36), shortened(`%${program.name(row)}`, 36)];
}

function regionLines(item) {
  const names = { computation: "instruction", kernel: "fused instruction", scope: "instruction", part: "instruction", bundle: "instruction" };
  return [shortened(item.title, 34), countText(item.rows.length, names[item.kind])];
}

Object.defineProperty(InstructionItem.prototype, "lines", {
  get() {
    if (!this._lines) {
      this._lines = instructionLines(this.view.program, this.view.state, this.row, this.view.constants);
    }
    return this._lines;
  },
});
Object.defineProperty(RegionItem.prototype, "lines", {
  get() {
    if (!this._lines) this._lines = regionLines(this);
    return this._lines;
  },
});

class Drawing {
  constructor(context, camera, width, height, palette) {
    Object.assign(this, { context, camera, palette });
    this.left = -camera.x / camera.scale;
    this.top = -camera.y / camera.scale;
    this.right = this.left + width / camera.scale;
    this.bottom = this.top + height / camera.scale;
    this.drawn = 0;
  }

  isVisible(left, top, right, bottom) {
    return right >= this.left && left <= this.right && bottom >= this.top && top <= this.bottom;
  }

  scene(scene, look) {
    const { context, camera } = this;
    context.save();
    context.translate(camera.x, camera.y);
    context.scale(camera.scale, camera.scale);
    for (const box of scene.boxes) if (isOpen(box)) this._openBox(box, look);
    this._edges(scene, look);
    for (const box of scene.boxes) {
      if (isOpen(box) || !this.isVisible(box.x, box.y, box.x + box.width, box.y + box.height + LINE)) continue;
      this.drawn += 1;
      if (box.port) this._port(box);
      else this._closedBox(box, look);
    }
    this._relations(scene, look);
    context.restore();
  }

  // -- edges
  _edges(scene, look) {
    const { context, palette } = this;
    const thin = Math.max(1, 0.6 / this.camera.scale);
    for (const edge of scene.edges) {
      if (!this.isVisible(...edge.bounds)) continue;
      const colour = look.edgeColour(edge);
      if (edge.isHidden && !colour) continue;
      context.strokeStyle = context.fillStyle = colour || palette.edge;
      context.lineWidth = colour ? thin * 2 : thin;
      context.globalAlpha = colour || !look.hasSelection ? 1 : 0.55;
      context.setLineDash(edge.control ? [4, 4] : []);
      this._curve(edge.points);
      if (this.camera.scale > TITLES) this._arrow(edge.points);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  _curve(points) {
    const { context } = this;
    context.beginPath();
    context.moveTo(points[0].x, points[0].y);
    for (let k = 1; k < points.length - 1; k++) {
      const next = points[k + 1];
      const end = k === points.length - 2 ? next : { x: (points[k].x + next.x) / 2, y: (points[k].y + next.y) / 2 };
      context.quadraticCurveTo(points[k].x, points[k].y, end.x, end.y);
    }
    if (points.length === 2) context.lineTo(points[1].x, points[1].y);
    context.stroke();
  }

  _arrow(points) {
    const { context } = this;
    const tip = points[points.length - 1];
    const from = points[points.length - 2];
    const angle = Math.atan2(tip.y - from.y, tip.x - from.x);
    context.beginPath();
    context.moveTo(tip.x, tip.y);
    context.lineTo(tip.x - 6 * Math.cos(angle - 0.45), tip.y - 6 * Math.sin(angle - 0.45));
    context.lineTo(tip.x - 6 * Math.cos(angle + 0.45), tip.y - 6 * Math.sin(angle + 0.45));
    context.fill();
  }

  // Lines from what is selected to what of it lies in other regions.
  _relations(scene, look) {
    const { context, palette } = this;
    context.lineWidth = Math.max(1.5, 1.2 / this.camera.scale);
    context.setLineDash([6, 4]);
    for (const { from, to, operand } of look.relations) {
      context.strokeStyle = operand ? palette.operand : palette.user;
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y];
      context.beginPath();
      context.moveTo(x1, y1);
      const bend = Math.max(30, Math.abs(y2 - y1) / 3);
      context.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
      context.stroke();
    }
    context.setLineDash([]);
  }

  // -- boxes
  _outline(x, y, width, height, radius) {
    this.context.beginPath();
    this.context.roundRect(x, y, width, height, radius);
  }

  _openBox(box, look) {
    if (!this.isVisible(box.x, box.y, box.x + box.width, box.y + box.height)) return;
    const { context, palette, camera } = this;
    const isKernel = box.item.kind === "kernel";
    this._outline(box.x, box.y, box.width, box.height, 8);
    context.fillStyle = palette.region;
    context.globalAlpha = 0.55;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = Math.max(1, 0.7 / camera.scale);
    context.strokeStyle = isKernel ? palette.product : palette.border;
    if (isKernel) context.setLineDash([5, 4]);
    context.stroke();
    context.setLineDash([]);
    if (camera.scale > TITLES) {
      context.font = `600 ${FONT}px ${SANS}`;
      context.fillStyle = palette.muted;
      context.textBaseline = "middle";
      context.fillText(`▾ ${shortened(box.item.lines[0], Math.floor(box.width / 7.6))}`, box.x + 10, box.y + HEADER / 2 + 1);
    }
    this._marks(box, look);
  }

  _port(box) {
    const { context, palette, camera } = this;
    this._outline(box.x, box.y, box.width, box.height, box.height / 2);
    context.strokeStyle = palette.border;
    context.fillStyle = palette.bg;
    context.lineWidth = 1;
    context.fill();
    context.stroke();
    if (camera.scale < READABLE) return;
    context.font = `11px ${MONO}`;
    context.fillStyle = palette.muted;
    context.textBaseline = "middle";
    context.fillText(box.port.text, box.x + 8, box.y + box.height / 2 + 1);
  }

  _closedBox(box, look) {
    const { context, palette, camera } = this;
    const { item } = box;
    const isRegion = item instanceof RegionItem;
    const mark = look.mark(item);
    context.globalAlpha = look.isDimmed(item) ? 0.28 : 1;
    if (isRegion) {
      this._outline(box.x + 4, box.y + 4, box.width, box.height, 7);
      context.fillStyle = palette.region;
      context.fill();
      context.strokeStyle = palette.border;
      context.lineWidth = 1;
      context.stroke();
    }
    this._outline(box.x, box.y, box.width, box.height, isRegion ? 7 : 5);
    context.fillStyle = isRegion ? palette.raised : palette.surface;
    context.fill();
    context.lineWidth = Math.max(1, 0.6 / camera.scale) * (mark ? 2 : 1);
    context.strokeStyle = mark ? palette[mark] : palette.border;
    if (mark === "removed") context.setLineDash([5, 4]);
    context.stroke();
    context.setLineDash([]);
    const family = isRegion ? null : item.view.program.family(item.row);
    const colour = isRegion ? (item.kind === "kernel" ? palette.product : palette.edge) : palette[family];
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(box.x, box.y, 5, box.height, [isRegion ? 7 : 5, 0, 0, isRegion ? 7 : 5]);
    context.fill();
    this._text(box, item, isRegion);
    const heat = look.heat(item);
    if (heat > 0) {
      context.fillStyle = palette.external;
      context.fillRect(box.x + 5, box.y + box.height - 3, (box.width - 5) * heat, 3);
    }
    if (!isRegion) this._edgeLabel(box, item);
    context.globalAlpha = 1;
    this._marks(box, look);
  }

  _text(box, item, isRegion) {
    const { context, palette, camera } = this;
    if (camera.scale < (isRegion ? TITLES : READABLE * 0.7)) return;
    const [first, second] = item.lines;
    context.textBaseline = "middle";
    context.fillStyle = palette.text;
    context.font = `600 ${FONT}px ${isRegion ? SANS : MONO}`;
    const y = box.y + PADDING + LINE / 2 - 2;
    context.fillText(first, box.x + PADDING + 4, y);
    context.font = `${FONT - 1}px ${isRegion ? SANS : MONO}`;
    context.fillStyle = palette.muted;
    context.fillText(second, box.x + PADDING + 4, y + LINE);
    if (item.canOpen) {
      context.textAlign = "right";
      context.fillText("▸", box.x + box.width - 7, y);
      context.textAlign = "left";
    }
  }

  // The shape and the layout of what an instruction gives, on the edges that leave it.
  _edgeLabel(box, item) {
    if (this.camera.scale < READABLE * 1.1) return;
    const { context, palette } = this;
    const text = shortened(item.view.program.shape(item.row), Math.max(16, Math.floor(box.width / 6.2)));
    context.font = `10px ${MONO}`;
    const width = text.length * 6.05;
    const x = box.x + box.width / 2 - width / 2;
    context.fillStyle = palette.bg;
    context.fillRect(x - 2, box.y + box.height + 3, width + 4, 12);
    context.fillStyle = palette.muted;
    context.textBaseline = "middle";
    context.fillText(text, x, box.y + box.height + 9.5);
  }

  _marks(box, look) {
    const { context, palette, camera } = this;
    if (look.isMatch(box.item)) {
      context.fillStyle = palette.match;
      context.beginPath();
      context.arc(box.x + box.width - 2, box.y + 2, Math.max(5, 3 / camera.scale), 0, 7);
      context.fill();
    }
    if (look.selected !== box.item) return;
    this._outline(box.x - 3, box.y - 3, box.width + 6, box.height + 6, 9);
    context.strokeStyle = palette.accent;
    context.lineWidth = Math.max(2.5, 2 / camera.scale);
    context.stroke();
  }
}

function isOpen(box) {
  return Boolean(box.item && box.item.open && box.item.canOpen);
}
