"use strict";

// Small things that everything else uses: elements, numbers, colours, what the reader chose last time.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function readable(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en-US");
  if (size > 0 && size < 0.001) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}

// Colours that stay apart for colour-blind eyes, after Okabe and Ito; lighter on a dark ground.
const palettes = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b5619a", "#c98a00", "#3a9bd1", "#785e3c", "#5a5a5a"],
  dark: ["#5cb3ec", "#ff9552", "#3fcf9f", "#e59bc6", "#f0bd4e", "#9ad5f7", "#c2a47c", "#b4b4b4"],
};

const memory = {
  get(key) {
    try { return window.localStorage.getItem("camber." + key); } catch { return null; }
  },
  set(key, value) {
    try { window.localStorage.setItem("camber." + key, value); } catch { /* a file may have no storage */ }
  },
};

const theme = {
  choices: ["auto", "light", "dark"],
  choice: "auto",
  printing: false,
  listeners: [],
  current() {
    if (this.printing) return "light";
    if (this.choice !== "auto") return this.choice;
    return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  },
  colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  },
  apply() {
    document.documentElement.dataset.theme = this.current();
    for (const listener of this.listeners) listener();
  },
};
