// Sections from data: each kind of block has one function.
const drawLater = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    drawLater.unobserve(entry.target);
    entry.target.view.draw();
  }
}, { rootMargin: "300px" });

const longTable = 40, shortTable = 25;  // rows: a longer table shows some of them until all are wanted

// Whether the cells of a column are words, which stand on the left, or numbers.
function wordy(cells) {
  const words = cells.filter((text) => /^[a-z]/i.test(text)).length;
  return words > cells.length / 2;
}

// Long names such as frozen:5:false_timestamps may be broken after their parts.
function breakable(name) {
  return name.split(/(?<=[:_])/).flatMap((part) => [part, element("wbr")]);
}

function tableCell(block, text, row, column, words) {
  const sentence = 32;  // characters: longer cells wrap
  const shade = (block.shades[row] || [])[column], share = Number(text);
  const cell = element("td", {}, text);
  if (words) cell.classList.add("left");
  if (column > 0 && text.length > sentence) cell.classList.add("words");
  if (block.bar_columns.includes(column) && text !== "" && Number.isFinite(share)) {
    cell.classList.add("barred");
    cell.style.setProperty("--share", String(Math.min(Math.max(share, 0), 1)));
  }
  if (shade !== null && shade !== undefined) {
    cell.classList.add(shade >= 0 ? "better" : "worse");
    cell.style.setProperty("--shade-share", `${Math.round(100 * Math.min(Math.abs(shade), 1))}%`);
  } else if (block.shades.length > 0 && column > 0) {
    cell.classList.add("own");
  }
  return cell;
}

const blocks = {
  sentences(block) {
    return element("div", { class: "panel wide" }, element("ul", { class: "sentences" }, ...block.sentences.map((sentence) => {
      const said = element("span", { class: "said" }, sentence.text);
      if (!sentence.severity) return element("li", { class: "plain" }, said);
      return element("li", {}, element("span", { class: "word " + sentence.severity }, sentence.severity), said,
        element("span", { class: "position" }, sentence.position));
    })));
  },

  chart(block) {
    const view = new ChartView(block);
    view.node.view = view;
    drawLater.observe(view.node);
    return view.node;
  },

  table(block) {
    const columns = block.columns.map((_, column) => wordy(block.rows.map((row) => row[column])));
    const row = (cells, index) => {
      const node = element("tr", {}, ...cells.map((text, column) => tableCell(block, text, index, column, columns[column])));
      node.hidden = block.rows.length > longTable && index >= shortTable;
      return node;
    };
    const rows = block.rows.map(row);
    const head = block.columns.map((name, column) => element("th", { scope: "col", ...(columns[column] ? { class: "left" } : {}) }, ...breakable(name)));
    const panel = element("div", { class: "panel wide" }, element("h3", {}, block.title),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title },
        element("table", block.columns.length > 7 ? { class: "many" } : {},
          element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))));
    if (block.rows.length > longTable) {
      const button = element("button", { type: "button", class: "more" }, `Show all ${block.rows.length} rows`);
      button.addEventListener("click", () => { for (const node of rows) node.hidden = false; button.remove(); });
      panel.append(button);
    }
    if (block.note) panel.append(element("p", { class: "note" }, block.note));
    return panel;
  },

  // A forest plot: labels, intervals and words in three columns, on a narrow screen label above interval.
  intervals(block) {
    const share = (value) => 100 * (value - block.from) / (block.to - block.from);
    const at = (kind, from, to) => {
      const node = element("i", { class: kind });
      node.style.left = `${share(from)}%`;
      if (to !== undefined) node.style.width = `${share(to) - share(from)}%`;
      return node;
    };
    const lines = () => [at("margin", -block.margin, block.margin), ...block.ticks.map((tick) => at(tick === 0 ? "tick zero" : "tick", tick))];
    const rows = block.rows.flatMap((row) => [element("span", { class: "label" }, row.label),
      element("span", { class: "track", "aria-hidden": "true" }, ...lines(),
        ...(row.low === null || row.high === null ? [] : [at("span", row.low, row.high)]), at("mean", row.mean)),
      element("span", { class: "words" }, row.words)]);
    const axis = element("span", { class: "axis", "aria-hidden": "true" }, ...block.ticks.map((tick) => {
      const node = at("number", tick);
      node.textContent = readable(tick);
      return node;
    }));
    return element("div", { class: "panel wide" }, element("h3", {}, block.title), element("div", { class: "forest" }, ...rows, axis),
      element("p", { class: "note" }, block.note));
  },

  images(block) {
    return element("div", { class: "wide images" }, ...block.images.map((image) =>
      element("figure", { class: "panel" }, element("div", { class: "pan", tabindex: "0", role: "region", "aria-label": image.caption },
        element("img", { src: image.source, alt: image.caption, loading: "lazy", class: image.source.startsWith("data:image/svg") ? "vector" : "" })),
        element("figcaption", {}, image.caption))));
  },

  text(block) {
    return element("div", { class: "panel wide" }, element("h3", {}, block.title), element("pre", { tabindex: "0" }, block.content));
  },
};

function anchor(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
}

function sectionNode(section) {
  const body = element("div", { class: "blocks" }, ...section.blocks.map((block) => blocks[block.kind](block)));
  const title = element("h2", {}, section.title);
  const lead = section.lead ? [element("p", { class: "lead" }, section.lead)] : [];
  const node = element("section", { id: anchor(section.title), "aria-label": section.title });
  if (section.folded) node.append(element("details", {}, element("summary", {}, title), ...lead, body));
  else node.append(element("div", { class: "head" }, title, ...lead), body);
  return node;
}
