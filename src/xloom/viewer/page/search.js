"use strict";
// What instructions a text asks for: words that all must be found; `op:dot shape:f32[8, scope:layer_3 -name:copy`.

const FIELDS = { name: ["name"], op: ["opcode"], shape: ["shape"], scope: ["op_name"], in: ["computation"], source: ["source"], attr: ["attributes"] };
const ANYWHERE = ["name", "opcode", "shape", "op_name"];

function parsedQuery(text) {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word.length)
    .map((word) => {
      const isNegative = word.length > 1 && word.startsWith("-");
      const plain = (isNegative ? word.slice(1) : word).replace(/^%/, "");
      const colon = plain.indexOf(":");
      const fields = FIELDS[plain.slice(0, colon)];
      return fields ? { fields, text: plain.slice(colon + 1), isNegative } : { fields: ANYWHERE, text: plain, isNegative };
    })
    .filter((term) => term.text.length);
}

class Search {
  constructor(program) {
    this.program = program;
    this.lower = program.strings.map((text) => text.toLowerCase());
  }

  // The rows that are found, in their order; null for a text that asks for nothing.
  find(rows, text) {
    const terms = parsedQuery(text);
    if (!terms.length) return null;
    const { columns, data } = this.program;
    const tests = terms.map((term) => {
      // a string is looked at once, whatever number of instructions have it
      const found = this.lower.map((each) => each.includes(term.text));
      const exact = term.fields[0] === "opcode" && term.fields.length === 1;
      return (row) => {
        const isFound = term.fields.some((field) => {
          const number = field === "shape" ? data.shapes[columns.shape[row]][0] : columns[field][row];
          return exact ? this.lower[number].startsWith(term.text) : found[number];
        });
        return isFound !== term.isNegative;
      };
    });
    return rows.filter((row) => tests.every((test) => test(row)));
  }
}
