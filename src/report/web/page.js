// The page as a whole: names, tiles, contents, theme, printing, and loading itself anew while a run goes on.
function showTheme() {
  const words = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
  document.getElementById("theme").textContent = words[theme.choice];
}

function startTheme() {
  const stored = memory.get("theme");
  if (theme.choices.includes(stored)) theme.choice = stored;
  showTheme();
  theme.listeners.push(() => {
    for (const view of ChartView.all) {
      view.colourLegend();
      if (view.plot) view.draw();
    }
  });
  document.getElementById("theme").addEventListener("click", () => {
    theme.choice = theme.choices[(theme.choices.indexOf(theme.choice) + 1) % theme.choices.length];
    memory.set("theme", theme.choice);
    showTheme();
    theme.apply();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme.apply());
}

// Paper gets every chart, on white, whatever was folded or not yet scrolled to.
function startPrinting() {
  const opened = [];
  const print = (on) => {
    if (theme.printing === on) return;
    theme.printing = on;
    if (on) {
      for (const details of document.querySelectorAll("details:not([open])")) {
        details.open = true;
        opened.push(details);
      }
    } else {
      for (const details of opened.splice(0)) details.open = false;
    }
    theme.apply();
    for (const view of ChartView.all) if (!view.plot) view.draw();
    for (const view of ChartView.all) view.resize();
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
}

function startContents(sections) {
  const contents = document.getElementById("contents");
  const links = new Map();
  for (const node of sections) {
    const link = element("a", { href: "#" + node.id }, node.getAttribute("aria-label"));
    link.addEventListener("click", () => { const details = node.querySelector("details"); if (details) details.open = true; });
    links.set(node, link);
    contents.append(link);
  }
  const mark = () => {
    let current = sections[0];
    for (const node of sections) if (node.getBoundingClientRect().top < 180) current = node;
    for (const [node, link] of links) {
      if (node === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  window.addEventListener("scroll", mark, { passive: true });
  if (sections.length > 0) mark();
}

// A run that goes on: load the file anew, unless the reader is in the middle of something.
function startLive(seconds) {
  if (!(seconds > 0)) return;
  const button = document.getElementById("live");
  let paused = false;
  const show = () => { button.textContent = paused ? "Live: paused" : `Live: every ${seconds} s`; };
  button.hidden = false;
  button.setAttribute("aria-pressed", "true");
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(!paused));
    show();
  });
  show();
  window.setInterval(() => {
    const busy = document.hidden || ChartView.all.some((view) => view.range);
    if (!paused && !busy) window.location.reload();
  }, seconds * 1000);
}

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  startTheme();
  theme.apply();
  document.getElementById("title").textContent = data.title;
  document.getElementById("subtitle").textContent = data.subtitle;
  const severities = ["good", "note", "warning", "alarm"];
  document.getElementById("tiles").append(...data.tiles.map((tile) => element("div", { class: "tile" },
    element("div", { class: "label" }, tile.label),
    element("div", { class: "value " + (severities.includes(tile.value) ? tile.value : "") }, tile.value),
    element("div", { class: "detail" }, tile.detail))));
  const sections = data.sections.map(sectionNode);
  document.getElementById("sections").append(...sections);
  startContents(sections);
  startPrinting();
  startLive(data.refresh_seconds);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const view of ChartView.all) view.resize();
  });
  document.documentElement.dataset.ready = "true";
}

start();
