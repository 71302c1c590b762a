// Boxes, points and images of one frame on canvases. Coordinates are the ego frame's: x ahead, y left, z up, in metres.
const edges = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4], [0, 4], [1, 5], [2, 6], [3, 7]];

function corners(box) {
  const [x, y, z] = box.center, [length, width, height] = box.size, c = Math.cos(box.yaw), s = Math.sin(box.yaw);
  const points = [];
  for (const ahead of [0.5, -0.5])
    for (const [left, up] of [[0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5], [0.5, -0.5]]) {
      const dx = ahead * length, dy = left * width;
      points.push([x + c * dx - s * dy, y + s * dx + c * dy, z + up * height]);
    }
  return points;
}

// A canvas as sharp as the screen: sized by its element, drawn in CSS pixels.
function prepared(canvas) {
  const scale = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.max(1, Math.round(box.width * scale)), height = Math.max(1, Math.round(box.height * scale));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  return { context, width: box.width, height: box.height };
}

function strokeBox(context, segments, colour, look) {
  for (const [width, style, alpha] of [[look.width + 2, "#000", 0.45], [look.width, colour, 1]]) {
    context.beginPath();
    for (const [from, to] of segments) { context.moveTo(...from); context.lineTo(...to); }
    context.lineWidth = width;
    context.strokeStyle = style;
    context.globalAlpha = alpha * look.alpha;
    context.setLineDash(look.dash && style !== "#000" ? [4, 3] : []);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

// Thick for found boxes, dashed for true ones beside them; what is not chosen steps back when something is.
function lookOf(object, chosen, anyFound) {
  const mine = chosen === object;
  return { width: mine ? 3 : object.found || !anyFound ? 1.8 : 1.2, dash: !object.found && anyFound, alpha: chosen && !mine ? 0.5 : 1 };
}

class BirdView {
  constructor(canvas, range) { this.canvas = canvas; this.range = range; this.hits = []; }

  draw(frame, view, state, points) {
    const { context, width, height } = prepared(this.canvas);
    this.scale = Math.min(width, height) / (2 * this.range);
    this.at = (p) => [width / 2 - this.scale * p[1], height / 2 - this.scale * p[0]];
    context.fillStyle = "#101216";
    context.fillRect(0, 0, width, height);
    this.rings(context, width, height);
    if (state.layers.points) this.points(context, points);
    this.ego(context);
    if (state.chosen && state.chosen.window) this.window(context, state.chosen.window.bird);
    this.hits = [];
    const anyFound = view.found.length > 0;
    for (const object of shownObjects(frame, view, state)) {
      const ground = [2, 3, 7, 6].map((index) => this.at(corners(object)[index]));
      const segments = ground.map((from, index) => [from, ground[(index + 1) % 4]]);
      segments.push([this.at(object.center), [(ground[0][0] + ground[1][0]) / 2, (ground[0][1] + ground[1][1]) / 2]]);
      strokeBox(context, segments, colourOf(object), lookOf(object, state.chosen, anyFound));
      this.hits.push({ object, at: this.at(object.center) });
    }
  }

  rings(context, width, height) {
    const step = this.range > 60 ? 20 : 10;
    context.font = "11px sans-serif";
    for (let radius = step; radius < this.range; radius += step) {
      context.beginPath();
      context.arc(width / 2, height / 2, radius * this.scale, 0, 2 * Math.PI);
      context.strokeStyle = "#343b45";
      context.lineWidth = 1;
      context.stroke();
      context.fillStyle = "#7d8896";
      context.fillText(`${radius} m`, width / 2 + 4, height / 2 - radius * this.scale + 13);
    }
  }

  points(context, points) {
    for (let i = 0; i + 2 < points.length; i += 3) {
      const [u, v] = this.at([points[i], points[i + 1]]);
      const high = Math.min(Math.max(points[i + 2] / 3, 0), 1);
      context.fillStyle = points[i + 2] < 0.15 ? "#3f4751" : `rgb(${90 + 138 * high} ${116 + 120 * high} ${144 + 100 * high})`;
      context.fillRect(u - 0.7, v - 0.7, 1.4, 1.4);
    }
  }

  ego(context) {
    context.beginPath();
    for (const p of [[3.6, 0], [2.9, -0.9], [-0.9, -0.9], [-0.9, 0.9], [2.9, 0.9]]) context.lineTo(...this.at(p));
    context.closePath();
    context.fillStyle = "#e1e4e8";
    context.fill();
  }

  window(context, area) {
    if (!area) return;
    context.beginPath();
    for (const p of area) context.lineTo(...this.at(p));
    context.closePath();
    context.fillStyle = "rgb(255 255 255 / 18%)";
    context.fill();
    context.strokeStyle = "#fff";
    context.lineWidth = 1;
    context.stroke();
  }
}

class CameraView {
  constructor(camera, index) {
    this.index = index;
    this.canvas = element("canvas", { role: "img", "aria-label": camera.name });
    this.canvas.style.aspectRatio = `${camera.width} / ${camera.height}`;
    this.mass = element("span", { class: "mass", hidden: "" });
    this.node = element("div", { class: "camera" }, this.canvas, element("span", { class: "tag" }, camera.name), this.mass);
    this.hits = [];
  }

  draw(frame, view, state, image, points) {
    const { context, width, height } = prepared(this.canvas);
    const matrix = view.matrices[this.index];
    this.hits = [];
    this.showMass(state.chosen);
    if (!image) {
      context.fillStyle = "#2c2f34";
      context.fillRect(0, 0, width, height);
      context.fillStyle = "#aab2bc";
      context.font = "13px sans-serif";
      context.textAlign = "center";
      context.fillText("delivers nothing", width / 2, height / 2);
      context.textAlign = "start";
      return;
    }
    context.drawImage(image, 0, 0, width, height);
    if (!matrix) return;
    const project = (p) => {
      const depth = matrix[8] * p[0] + matrix[9] * p[1] + matrix[10] * p[2] + matrix[11];
      return [(matrix[0] * p[0] + matrix[1] * p[1] + matrix[2] * p[2] + matrix[3]) / depth * width,
        (matrix[4] * p[0] + matrix[5] * p[1] + matrix[6] * p[2] + matrix[7]) / depth * height, depth];
    };
    if (state.layers.depth) this.depth(context, project, points, width, height);
    if (state.chosen && state.chosen.window) this.window(context, state.chosen.window.cameras[this.index], width, height);
    const anyFound = view.found.length > 0;
    for (const object of shownObjects(frame, view, state)) this.box(context, project, object, state, anyFound, width, height);
  }

  showMass(chosen) {
    const mass = chosen && chosen.mass ? chosen.mass[this.index + 1] : undefined;
    this.mass.hidden = mass === undefined;
    if (mass !== undefined) this.mass.replaceChildren(`${(100 * mass).toFixed(1)} %`, element("span", {}, " of its attention"));
  }

  depth(context, project, points, width, height) {
    for (let i = 0; i + 2 < points.length; i += 3) {
      if (points[i + 2] < 0.15) continue;
      const [u, v, depth] = project([points[i], points[i + 1], points[i + 2]]);
      if (depth < 0.3 || u < 0 || v < 0 || u >= width || v >= height) continue;
      context.fillStyle = `hsl(${50 + 190 * Math.min(depth / 50, 1)} 85% 62% / 80%)`;
      context.fillRect(u - 1, v - 1, 2, 2);
    }
  }

  window(context, area, width, height) {
    if (!area) return;
    const [left, top, right, bottom] = area;
    context.fillStyle = "rgb(255 255 255 / 16%)";
    context.strokeStyle = "#fff";
    context.lineWidth = 1;
    context.fillRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
    context.strokeRect(left * width, top * height, (right - left) * width, (bottom - top) * height);
  }

  // Edges are cut where they pass behind the camera.
  box(context, project, object, state, anyFound, width, height) {
    const near = 0.2, points = corners(object), segments = [];
    for (const [first, second] of edges) {
      let from = points[first], to = points[second];
      const a = project(from)[2], b = project(to)[2];
      if (a < near && b < near) continue;
      if (a < near || b < near) {
        const share = (near - a) / (b - a), cut = from.map((value, axis) => value + share * (to[axis] - value));
        if (a < near) from = cut; else to = cut;
      }
      segments.push([project(from).slice(0, 2), project(to).slice(0, 2)]);
    }
    const inside = segments.some(([from, to]) => [from, to].some(([u, v]) => u >= 0 && v >= 0 && u < width && v < height));
    if (!inside) return;
    strokeBox(context, segments, colourOf(object), lookOf(object, state.chosen, anyFound));
    this.hits.push({ object, at: project(object.center).slice(0, 2) });
  }
}

function shownObjects(frame, view, state) {
  const found = state.layers.found ? view.found.filter((object) => object.score >= state.minimum) : [];
  return [...found, ...(state.layers.truth ? frame.truth : [])];
}

function colourOf(object) {
  return object.colour;
}

// The object whose middle is nearest to a click, within reach.
function nearest(hits, x, y, reach) {
  let best = null, least = reach;
  for (const { object, at } of hits) {
    const distance = Math.hypot(at[0] - x, at[1] - y);
    if (distance < least || (distance === least && object.found)) { least = distance; best = object; }
  }
  return best;
}
