"use strict";
// Elements, and how numbers read. All text goes in as text nodes.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

function scaledText(value, units, step) {
  let k = 0;
  while (value >= step && k < units.length - 1) {
    value /= step;
    k += 1;
  }
  return `${k === 0 && Number.isInteger(value) ? value : value.toPrecision(3)} ${units[k]}`;
}

function bytesText(bytes) {
  return scaledText(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
}

function timeText(seconds) {
  return scaledText(seconds * 1e9, ["ns", "µs", "ms", "s"], 1000);
}

function countText(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

function shortened(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

// A canvas that is as sharp as the screen; gives its context, in CSS pixels.
function sharpContext(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
