// A chart: uPlot with a legend of buttons, zoom by drag, buttons and keys, and a value for readers of screens.
const plotHeight = 200;

class ChartView {
  static all = [];

  constructor(data) {
    this.data = data;
    this.plot = null;
    this.shown = data.series.map(() => true);
    this.log = this.spiked();
    this.area = element("div", { class: "plot", tabindex: "0", role: "img", "aria-label": this.summary(), onkeydown: (event) => this.key(event) });
    this.legend = element("div", { class: "legend" });
    this.logButton = element("button", { type: "button", "aria-label": "Logarithmic axis", title: "Logarithmic axis (l)",
      "aria-pressed": String(this.log), onclick: () => this.toggleLog() }, "log");
    const zoom = element("div", { class: "zoom" }, ...(this.positive() ? [this.logButton] : []),
      element("button", { type: "button", "aria-label": "Zoom out", title: "Zoom out (-)", onclick: () => this.zoom(2) }, "−"),
      element("button", { type: "button", "aria-label": "Zoom in", title: "Zoom in (+)", onclick: () => this.zoom(0.5) }, "+"),
      element("button", { type: "button", "aria-label": "Show all", title: "Show all (0)", onclick: () => this.showAll() }, "⟲"));
    this.node = element("div", { class: "panel chart" },
      element("div", { class: "head" }, element("h3", {}, data.title), zoom), this.area, this.legend);
    const words = [data.note, data.points > data.x.length
      ? `${readable(data.points)} points, drawn by the least and greatest of each stretch` : ""].filter(Boolean).join("; ");
    if (words) this.node.append(element("p", { class: "note" }, words));
    this.makeLegend();
    ChartView.all.push(this);
  }

  lines() { return this.data.series.filter((series) => series.role === "line"); }

  // A logarithmic axis has room for what is above 0 alone, and none for a range that is fixed.
  positive() {
    if (this.data.y_min !== null || this.data.y_max !== null || this.lines().length !== this.data.series.length) return false;
    const values = this.lines().flatMap((series) => series.values).filter((value) => value !== null);
    return values.length > 0 && values.every((value) => value > 0);
  }

  // Whether a few values are so far above the others that these would lie flat on the axis.
  spiked() {
    if (!this.positive()) return false;
    const values = this.lines().flatMap((series) => series.values).filter((value) => value !== null).sort((a, b) => a - b);
    return values.length >= 20 && values[values.length - 1] > 10 * values[Math.floor(0.9 * (values.length - 1))];
  }

  toggleLog() {
    this.log = !this.log;
    this.logButton.setAttribute("aria-pressed", String(this.log));
    if (this.plot) this.draw();
  }

  summary() {
    const parts = this.data.series.map((series) => {
      const values = series.values.filter((value) => value !== null);
      if (values.length === 0) return `${series.name} without values`;
      const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
      return `${series.name} last ${readable(values[values.length - 1])}, from ${readable(low)} to ${readable(high)}`;
    });
    return `${this.data.title} over ${this.data.x_label}: ${parts.join("; ")}`;
  }

  // A line beyond the colours of the palette has one of them again, dotted.
  dotted(index) {
    const line = this.data.series.slice(0, index).filter((series) => series.role === "line").length;
    return this.data.series[index].role === "line" && line >= palettes.light.length;
  }

  colours() {
    const palette = palettes[theme.current()];
    let line = 0;
    return this.data.series.map((series) => {
      if (series.role === "bound") return theme.colour("soft");
      if (series.role === "warn") return theme.colour("warning");
      if (series.role.startsWith("band")) return palette[0];
      return palette[line++ % palette.length];
    });
  }

  makeLegend() {
    this.values = [];
    this.buttons = this.data.series.map((series, index) => {
      const value = element("span", { class: "value" });
      this.values.push(value);
      const kind = series.role === "line" ? (this.dotted(index) ? " dotted" : "") : series.role.startsWith("band") ? " band" : " dashed";
      const button = element("button", { type: "button", "aria-pressed": "true", onclick: () => this.toggle(index) },
        element("span", { class: "swatch" + kind }), series.name, value);
      this.legend.append(button);
      return button;
    });
    this.colourLegend();
    this.showValues(null);
  }

  colourLegend() {
    this.colours().forEach((colour, index) => {
      const swatch = this.buttons[index].querySelector(".swatch");
      swatch.style.borderColor = colour;
      if (swatch.classList.contains("band")) swatch.style.background = colour;
    });
  }

  // The values under the cursor, or the last ones; a curve over anything but steps has no last one worth telling.
  showValues(row) {
    const nowhere = row === null || row === undefined;
    this.data.series.forEach((series, index) => {
      if (nowhere && this.data.x_label !== "step") { this.values[index].textContent = ""; return; }
      let at = nowhere ? series.values.length - 1 : row;
      while (at > 0 && series.values[at] === null) --at;
      this.values[index].textContent = readable(series.values[at]);
    });
  }

  toggle(index) {
    this.shown[index] = !this.shown[index];
    this.buttons[index].setAttribute("aria-pressed", String(this.shown[index]));
    if (this.plot) this.plot.setSeries(index + 1, { show: this.shown[index] });
  }

  yRange(low, high) {
    const { y_min: bottom, y_max: top } = this.data;
    if (low === null || high === null) return [bottom ?? 0, top ?? 1];
    if (this.log) return [low / 1.15, high * 1.15];
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    return [bottom ?? low - margin, top ?? high + margin];
  }

  options() {
    const colours = this.colours();
    const soft = theme.colour("soft"), grid = theme.colour("grid");
    const font = "12px " + getComputedStyle(document.body).fontFamily;
    const axis = { stroke: soft, font, grid: { stroke: grid, width: 1 }, ticks: { show: false }, gap: 6 };
    // On a logarithmic axis only what has a number has a line: ten of them for each power of ten would be a blot.
    const numbered = (plot, splits, index, space, step) => plot.axes[index].filter(plot, splits, index, space, step);
    const lines = this.log ? { ...axis.grid, filter: numbered } : axis.grid;
    const series = this.data.series.map((one, index) => ({
      label: one.name, show: this.shown[index], stroke: one.role.startsWith("band") ? "transparent" : colours[index],
      width: one.role === "line" ? 1.6 : 1, dash: one.role === "bound" || one.role === "warn" ? [5, 4] : this.dotted(index) ? [2, 3] : undefined,
      spanGaps: true, points: { show: this.data.x.length < 3 },
    }));
    const low = this.data.series.findIndex((one) => one.role === "band_low") + 1;
    const high = this.data.series.findIndex((one) => one.role === "band_high") + 1;
    return {
      width: this.area.clientWidth || 320, height: plotHeight, legend: { show: false },
      scales: { x: { time: false }, y: { distr: this.log ? 3 : 1, range: (_, a, b) => this.yRange(a, b) } },
      axes: [{ ...axis, size: 28, space: 64 }, { ...axis, grid: lines, size: (_, labels) => 18 + 7 * Math.max(3, ...(labels || []).map((label) => (label || "").length)),
        values: (_, ticks) => ticks.map((tick) => tick === null ? "" : readable(tick)) }],
      series: [{ label: this.data.x_label }, ...series],
      bands: low && high ? [{ series: [high, low], fill: colours[high - 1] + "2e" }] : [],
      cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false }, sync: { key: this.data.x_label }, focus: { prox: -1 } },
      hooks: {
        setCursor: [(plot) => this.showValues(plot.cursor.idx)],
        setScale: [(plot, key) => { if (key === "x") this.zoomed(plot.scales.x.min, plot.scales.x.max); }],
      },
    };
  }

  draw() {
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot(this.options(), [this.data.x, ...this.data.series.map((one) => one.values)], this.area);
    this.plot.over.addEventListener("dblclick", () => this.showAll());
    if (this.range) this.plot.setScale("x", this.range);
  }

  ends() { return [this.data.x[0], this.data.x[this.data.x.length - 1]]; }

  // What one chart over steps shows, all of them show.
  zoomed(min, max) {
    const [first, last] = this.ends();
    const whole = min === null || (min <= first && max >= last);
    this.node.classList.toggle("zoomed", !whole);
    this.range = whole ? null : { min, max };
    if (ChartView.sharing || !this.plot) return;
    ChartView.sharing = true;
    for (const other of ChartView.all) {
      if (other === this || other.data.x_label !== this.data.x_label || other.data.x.length < 2) continue;
      const [from, to] = other.ends();
      const range = whole ? { min: from, max: to } : { min, max };
      if (other.plot) other.plot.setScale("x", range);
      else other.zoomed(range.min, range.max);
    }
    ChartView.sharing = false;
  }

  showAll() {
    const [min, max] = this.ends();
    if (this.plot) this.plot.setScale("x", { min, max });
  }

  zoom(factor) {
    if (!this.plot || this.data.x.length < 2) return;
    const { min, max } = this.plot.scales.x;
    const [first, last] = this.ends();
    const row = this.plot.cursor.idx;
    const middle = row === null || row === undefined ? (min + max) / 2 : this.data.x[row];
    const half = ((max - min) * factor) / 2;
    if (half * 2 >= last - first) { this.showAll(); return; }
    const from = Math.min(Math.max(middle - half, first), last - 2 * half);
    this.plot.setScale("x", { min: from, max: from + 2 * half });
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
    if (event.ctrlKey || event.metaKey || event.altKey || !this.plot) return;
    if (event.key in moves) this.move(moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "l" && this.positive()) this.toggleLog();
    else if (event.key === "0" || event.key === "Escape") this.showAll();
    else return;
    event.preventDefault();
  }

  move(steps) {
    const { min, max } = this.plot.scales.x;
    const visible = this.data.x.map((x, row) => row).filter((row) => this.data.x[row] >= min && this.data.x[row] <= max);
    if (visible.length === 0) return;
    const jump = Math.max(1, Math.round(visible.length / 100)) * steps;
    const now = this.plot.cursor.idx ?? visible[visible.length - 1];
    const row = Math.min(Math.max(now + jump, visible[0]), visible[visible.length - 1]);
    this.plot.setCursor({ left: this.plot.valToPos(this.data.x[row], "x"), top: 10 });
  }

  resize() {
    const width = this.area.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: plotHeight });
  }
}
ChartView.sharing = false;
