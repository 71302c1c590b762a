// Sections from data: each kind of block has one function.
const drawLater = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    drawLater.unobserve(entry.target);
    entry.target.view.draw();
  }
}, { rootMargin: "300px" });

const blocks = {
  sentences(block) {
    return element("div", { class: "panel wide" }, element("ul", { class: "sentences" }, ...block.sentences.map((sentence) =>
      element("li", {}, element("span", { class: "word " + sentence.severity }, sentence.severity),
        element("span", { class: "said" }, sentence.text), element("span", { class: "position" }, sentence.position)))));
  },

  chart(block) {
    const view = new ChartView(block);
    view.node.view = view;
    drawLater.observe(view.node);
    return view.node;
  },

  table(block) {
    const sentence = 32;  // characters: longer cells wrap
    const row = (cells) => element("tr", {}, ...cells.map((text, column) => {
      const share = Number(text);
      if (!block.bar_columns.includes(column) || !Number.isFinite(share)) 
        return element("td", column > 0 && text.length > sentence ? { class: "words" } : {}, text);
      const cell = element("td", { class: "barred" }, text);
      cell.style.setProperty("--share", String(Math.min(Math.max(share, 0), 1)));
      return cell;
    }));
    const panel = element("div", { class: "panel wide" }, element("h3", {}, block.title),
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title }, element("table", block.columns.length > 7 ? { class: "many" } : {},
        element("thead", {}, element("tr", {}, ...block.columns.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...block.rows.map(row)))));
    if (block.note) panel.append(element("p", { class: "note" }, block.note));
    return panel;
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
