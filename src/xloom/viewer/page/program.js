"use strict";
// The program: rows of instructions, and the states that it goes through.

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const FAMILIES = {
  input: ["parameter", "constant", "iota", "infeed", "outfeed", "after-all", "partition-id", "replica-id"],
  product: ["dot", "ragged-dot", "scaled-dot", "convolution", "fft", "cholesky", "triangular-solve"],
  reduction: ["reduce", "reduce-window", "select-and-scatter", "sort", "topk", "scan"],
  control: ["while", "conditional", "call", "fusion", "async-start", "async-update", "async-done", "map"],
  collective: [
    "all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute", "collective-broadcast",
    "ragged-all-to-all", "all-reduce-start", "all-reduce-done", "all-gather-start", "all-gather-done",
    "collective-permute-start", "collective-permute-done", "send", "send-done", "recv", "recv-done",
  ],
  external: ["custom-call"],
  movement: [
    "broadcast", "reshape", "transpose", "slice", "dynamic-slice", "dynamic-update-slice", "gather", "scatter",
    "concatenate", "pad", "reverse", "copy", "bitcast", "bitcast-convert", "tuple", "get-tuple-element", "convert",
  ],
};
const FAMILY = new Map(Object.entries(FAMILIES).flatMap(([family, opcodes]) => opcodes.map((o) => [o, family])));

class Program {
  constructor(data) {
    this.data = data;
    this.strings = data.strings;
    const columns = data.instructions;
    this.columns = columns;
    this.count = columns.name.length;
    this.starts = {};
    for (const list of ["operands", "predecessors", "calls"]) {
      const starts = new Uint32Array(this.count + 1);
      columns[`${list}_count`].forEach((count, row) => (starts[row + 1] = starts[row] + count));
      this.starts[list] = starts;
    }
    this.families = this.strings.map((text) => FAMILY.get(text));
    this.states = new Array(data.states.length);
    this.plan = data.plan ? new Plan(this, data.plan) : null;
    this.profile = data.profile;
  }

  text(column, row) {
    return this.strings[this.columns[column][row]];
  }

  name(row) {
    return this.text("name", row);
  }

  opcode(row) {
    return this.text("opcode", row);
  }

  family(row) {
    return this.families[this.columns.opcode[row]] || "elementwise";
  }

  shape(row) {
    return this.strings[this.data.shapes[this.columns.shape[row]][0]];
  }

  bytes(row) {
    return this.data.shapes[this.columns.shape[row]][1];
  }

  // Numbers of strings in a list of a row.
  list(column, row) {
    const starts = this.starts[column];
    return this.columns[column].slice(starts[row], starts[row + 1]);
  }

  // The names that the scope of an instruction consists of, without that of the operation.
  scope(row) {
    const text = this.text("op_name", row);
    const parts = [];
    let depth = 0;
    let start = 0;
    for (let k = 0; k < text.length; k++) {
      if (text[k] === "(" || text[k] === "[") depth += 1;
      else if (text[k] === ")" || text[k] === "]") depth -= 1;
      else if (text[k] === "/" && depth <= 0) {
        parts.push(text.slice(start, k));
        start = k + 1;
      }
    }
    return parts;
  }

  hlo(row) {
    const name = this.opcode(row);
    const value = this.text("value", row);
    const operands = value || this.list("operands", row).map((o) => `%${this.strings[o]}`).join(", ");
    const attributes = this.text("attributes", row);
    const root = this.columns.root[row] ? "ROOT " : "";
    return `${root}%${this.name(row)} = ${this.shape(row)} ${name}(${operands})${attributes ? `, ${attributes}` : ""}`;
  }

  // The Python frames that an instruction comes from, innermost first.
  stack(row) {
    const frames = [];
    let frame = this.columns.frame[row];
    while (frame > 0 && frame <= this.data.frames.length && frames.length < 100) {
      const [file, fn, line, parent] = this.data.frames[frame - 1];
      frames.push({ file: this.strings[file], function: this.strings[fn], line });
      frame = parent;
    }
    const source = this.text("source", row);
    if (!frames.length && source) {
      const colon = source.lastIndexOf(":");
      frames.push({ file: source.slice(0, colon), function: "", line: Number(source.slice(colon + 1)) });
    }
    return frames;
  }

  get last() {
    return this.states.length - 1;
  }

  // The state that the schedule is of.
  get planned() {
    return this.plan ? this.last : -1;
  }

  state(number) {
    if (!this.states[number]) {
      const rows = new Set(number ? this.state(number - 1).rows : []);
      const { added, removed } = this.data.states[number];
      removed.forEach((row) => rows.delete(row));
      added.forEach((row) => rows.add(row));
      this.states[number] = new State(this, number, rows);
    }
    return this.states[number];
  }
}

class State {
  constructor(program, number, rows) {
    this.program = program;
    this.number = number;
    const data = program.data.states[number];
    this.title = data.title;
    this.entry = data.entry;
    this.rows = rows;
    this.computations = new Map();
    const { columns } = program;
    for (const row of rows) {
      const name = columns.computation[row];
      let computation = this.computations.get(name);
      if (!computation) this.computations.set(name, (computation = { name, rows: [], byName: new Map(), root: -1 }));
      computation.rows.push(row);
      computation.byName.set(columns.name[row], row);
      if (columns.root[row]) computation.root = row;
    }
    this._compare(number ? data : { added: [], removed: [] });
    if (number) for (const computation of this.computations.values()) this._sort(computation);
  }

  // Which rows are new, which are the old ones under their names, and which names are gone.
  _compare({ added, removed }) {
    const { columns } = this.program;
    const key = (row) => `${columns.computation[row]} ${columns.name[row]}`;
    const before = new Map(removed.map((row) => [key(row), row]));
    this.marks = new Map();
    this.old = new Map();
    for (const row of added) {
      const was = before.get(key(row));
      this.marks.set(row, was === undefined ? "added" : "changed");
      if (was === undefined) continue;
      this.old.set(row, was);
      before.delete(key(row));
    }
    this.removed = [...before.values()];
    this.removed.forEach((row) => this.marks.set(row, "removed"));
  }

  // Operands before users.
  _sort(computation) {
    const order = [];
    const seen = new Set();
    for (const top of [computation.root, ...computation.rows]) {
      if (top < 0 || seen.has(top)) continue;
      seen.add(top);
      const stack = [[top, this.operands(top), 0]];
      while (stack.length) {
        const frame = stack[stack.length - 1];
        if (frame[2] < frame[1].length) {
          const next = frame[1][frame[2]++];
          if (!seen.has(next)) {
            seen.add(next);
            stack.push([next, this.operands(next), 0]);
          }
        } else {
          order.push(frame[0]);
          stack.pop();
        }
      }
    }
    computation.rows = order;
  }

  get order() {
    if (!this._order) {
      const all = [...this.computations.values()];
      all.sort((a, b) => (b.name === this.entry) - (a.name === this.entry));
      this._order = all.flatMap((computation) => computation.rows);
    }
    return this._order;
  }

  computationOf(row) {
    return this.computations.get(this.program.columns.computation[row]);
  }

  find(computation, name) {
    return this.computations.get(computation)?.byName.get(name);
  }

  operands(row) {
    const computation = this.computationOf(row);
    return computation ? this._found(computation, "operands", row) : [];
  }

  predecessors(row) {
    const computation = this.computationOf(row);
    return computation ? this._found(computation, "predecessors", row) : [];
  }

  _found(computation, column, row) {
    const { columns, starts } = this.program;
    const found = [];
    for (let k = starts[column][row]; k < starts[column][row + 1]; k++) {
      const operand = computation.byName.get(columns[column][k]);
      if (operand !== undefined) found.push(operand);
    }
    return found;
  }

  users(row) {
    if (!this._users) {
      this._users = new Map();
      for (const user of this.rows) {
        for (const operand of new Set(this.operands(user))) {
          const users = this._users.get(operand);
          if (users) users.push(user);
          else this._users.set(operand, [user]);
        }
      }
    }
    return this._users.get(row) || [];
  }

  callers(computation) {
    if (!this._callers) {
      this._callers = new Map();
      for (const row of this.rows) {
        for (const called of this.program.list("calls", row)) {
          const callers = this._callers.get(called);
          if (callers) callers.push(row);
          else this._callers.set(called, [row]);
        }
      }
    }
    return this._callers.get(computation) || [];
  }
}

// The schedule: thunks by what they make, and arrays.
class Plan {
  constructor(program, data) {
    this.program = program;
    this.thunks = data.thunks;
    this.arrays = data.arrays;
    this.hasScratch = data.has_scratch;
    this.byInstruction = new Map();
    for (const thunk of this.thunks) {
      for (const name of [...thunk.roots, ...thunk.inlined]) {
        const key = `${thunk.computation} ${name}`;
        const known = this.byInstruction.get(key);
        if (known) known.push(thunk);
        else this.byInstruction.set(key, [thunk]);
      }
    }
  }

  // The thunks that compute an instruction: several where it is computed wherever it is used.
  thunksOf(row) {
    const { columns } = this.program;
    return this.byInstruction.get(`${columns.computation[row]} ${columns.name[row]}`) || [];
  }

  title(thunk) {
    return thunk.roots.map((name) => this.program.strings[name]).join(", ");
  }

  // The row of a thunk's first instruction.
  row(thunk) {
    return this.program.state(this.program.planned).find(thunk.computation, thunk.roots[0]);
  }
}
