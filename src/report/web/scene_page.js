// The page of a scene: time, what is shown, the chosen object.
class ScenePage {
  constructor(data) {
    this.data = data;
    this.frame = 0;
    this.timer = null;
    this.images = new Map();
    this.clouds = new Map();
    this.state = { condition: 0, chosen: null, minimum: data.min_score,
      layers: { truth: true, found: true, points: true, depth: false } };
    this.bird = new BirdView(document.getElementById("bird"), data.range);
    this.cameras = data.cameras.map((camera, index) => new CameraView(camera, index));
    const holder = document.getElementById("cameras");
    // Wide images stand in two columns, others in up to three.
    const wide = data.cameras.some((camera) => camera.width > 2.2 * camera.height);
    holder.style.setProperty("--columns", String(Math.max(1, Math.min(wide ? 2 : 3, Math.ceil(data.cameras.length / 2)))));
    holder.append(...data.camera_order.map((index) => this.cameras[index].node));
    this.sensors = new SensorPanel(data, (frame) => { this.pause(); this.go(frame); });
    theme.listeners.push(() => this.sensors.show(this.frame, this.state.condition));
    // Below the bird's-eye view, where an object's trust and attention fill the other column; without them there.
    if (!data.has_run) document.getElementById("object").after(document.querySelector(".objects"));
    this.start();
    this.show();
  }

  view() { return this.data.frames[this.frame].views[this.state.condition]; }

  start() {
    const time = document.getElementById("time");
    time.max = String(this.data.frames.length - 1);
    time.addEventListener("input", () => {
      const wanted = Number(time.value);  // pausing shows the frame that is shown until now
      this.pause();
      this.go(wanted);
    });
    document.getElementById("play").addEventListener("click", () => this.toggle());
    const conditions = document.getElementById("conditions");
    if (this.data.conditions.length > 1)
      conditions.append(...this.data.conditions.map((name, index) => element("button", { type: "button", onclick: () => this.choose(index) }, name)));
    const layers = [["found", "found"], ["truth", "true"], ["points", "points"], ["depth", "points in images"]]
      .filter(([name]) => name !== "found" || this.data.has_run);
    document.getElementById("layers").append(...layers.map(([name, words]) => element("button",
      { type: "button", "data-layer": name, onclick: () => { this.state.layers[name] = !this.state.layers[name]; this.show(); } }, words)));
    this.startPicking();
    this.startKeys();
    window.addEventListener("resize", () => this.show());
  }

  startPicking() {
    const pick = (view, reach) => (event) => {
      const box = view.canvas.getBoundingClientRect();
      this.select(nearest(view.hits, event.clientX - box.left, event.clientY - box.top, reach));
    };
    this.bird.canvas.addEventListener("click", pick(this.bird, 24));
    for (const camera of this.cameras) {
      camera.canvas.addEventListener("click", pick(camera, 40));
      camera.canvas.addEventListener("dblclick", () => { camera.node.classList.toggle("large"); this.show(); });
    }
  }

  startKeys() {
    const keys = [["space", "play"], ["← →", "frame"], ["home end", "first, last"], ["n p", "next, previous object"], ["f", "sensors"],
      ["t", "true boxes"], ["d", "points in images"], ["esc", "no object"], ["double click", "enlarge a camera"]];
    const help = document.getElementById("help"), panel = document.getElementById("keys");
    panel.append(...keys.map(([key, words]) => element("span", {}, element("kbd", {}, key), " " + words)));
    help.addEventListener("click", () => { panel.hidden = !panel.hidden; help.setAttribute("aria-expanded", String(!panel.hidden)); });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || (event.key === " " && event.target.closest("button"))) return;
      const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -this.data.frames.length, End: this.data.frames.length };
      if (event.key in steps) { this.pause(); this.go(this.frame + steps[event.key]); }
      else if (event.key === " ") this.toggle();
      else if (event.key === "n") this.step(1);
      else if (event.key === "p") this.step(-1);
      else if (event.key === "f") this.choose((this.state.condition + 1) % this.data.conditions.length);
      else if (event.key === "t") { this.state.layers.truth = !this.state.layers.truth; this.show(); }
      else if (event.key === "d") { this.state.layers.depth = !this.state.layers.depth; this.show(); }
      else if (event.key === "Escape") this.select(null);
      else return;
      event.preventDefault();
    });
  }

  toggle() { if (this.timer) this.pause(); else this.play(); }

  play() {
    if (this.frame === this.data.frames.length - 1) this.go(0);
    this.timer = window.setInterval(() => {
      if (this.frame === this.data.frames.length - 1) this.pause();
      else this.go(this.frame + 1);
    }, 1000 * this.data.interval);
    this.showPlayer();
  }

  pause() {
    window.clearInterval(this.timer);
    this.timer = null;
    this.showPlayer();
  }

  go(frame) {
    const target = Math.min(Math.max(frame, 0), this.data.frames.length - 1);
    if (target === this.frame) return;
    const before = this.data.frames[this.frame];
    this.frame = target;
    if (this.state.chosen) this.state.chosen = this.same(this.state.chosen, before);
    this.show();
  }

  choose(condition) {
    const before = this.data.frames[this.frame];
    this.state.condition = condition;
    if (this.state.chosen) this.state.chosen = this.same(this.state.chosen, before);
    this.show();
  }

  select(object) { this.state.chosen = object; this.show(); }

  step(by) {
    const objects = shownObjects(this.data.frames[this.frame], this.view(), this.state);
    if (objects.length === 0) return;
    const at = objects.indexOf(this.state.chosen);
    this.select(objects[(at + by + objects.length + (at < 0 && by < 0 ? 1 : 0)) % objects.length]);
  }

  // The object that was chosen, in the frame that is shown now: the nearest of its class in the world, within reach.
  same(chosen, before) {
    const frame = this.data.frames[this.frame], reach = 2 + 15 * Math.abs(frame.time - before.time);  // 2 m, and 15 m/s
    const world = (pose, p) => [pose[0] + Math.cos(pose[2]) * p[0] - Math.sin(pose[2]) * p[1], pose[1] + Math.sin(pose[2]) * p[0] + Math.cos(pose[2]) * p[1]];
    const from = world(before.pose, chosen.center);
    let best = null, least = reach;
    for (const object of chosen.found ? this.view().found : frame.truth) {
      if (object.name !== chosen.name) continue;
      if (chosen.object !== undefined && object.object === chosen.object) return object;
      const to = world(frame.pose, object.center), distance = Math.hypot(to[0] - from[0], to[1] - from[1]);
      if (distance < least) { least = distance; best = object; }
    }
    return best;
  }

  image(index) {
    if (index < 0) return null;
    let image = this.images.get(index);
    if (!image) {
      image = new Image();
      image.src = "data:image/jpeg;base64," + this.data.images[index];
      image.decoded = image.decode().then(() => { image.ready = true; });
      this.images.set(index, image);
    }
    return image;
  }

  // Int16 in centimetres.
  cloud(index) {
    if (index < 0) return [];
    if (!this.clouds.has(index)) {
      const bytes = Uint8Array.from(atob(this.data.points[index]), (letter) => letter.charCodeAt(0));
      this.clouds.set(index, Float32Array.from(new Int16Array(bytes.buffer), (value) => value / 100));
    }
    return this.clouds.get(index);
  }

  async show() {
    const frame = this.data.frames[this.frame], view = this.view(), ticket = this.ticket = (this.ticket || 0) + 1;
    this.showPlayer();
    this.showObject();
    this.showList(frame, view);
    this.sensors.show(this.frame, this.state.condition);
    const images = view.images.map((index) => this.image(index));
    await Promise.all(images.filter((image) => image && !image.ready).map((image) => image.decoded));
    if (ticket !== this.ticket) return;
    const points = this.cloud(view.points);
    this.bird.draw(frame, view, this.state, points);
    this.cameras.forEach((camera, index) => camera.draw(frame, view, this.state, images[index], points));
    this.bird.canvas.setAttribute("aria-label", `From above: ${frame.truth.length} true objects, ${view.found.length} found, at ${frame.time.toFixed(2)} s`);
    const next = this.data.frames[this.frame + 1];
    if (next) next.views[this.state.condition].images.forEach((index) => this.image(index));
    document.documentElement.dataset.shown = `${this.frame}/${this.state.condition}`;
  }

  showPlayer() {
    const play = document.getElementById("play"), frame = this.data.frames[this.frame];
    play.textContent = this.timer ? "Pause" : "Play";
    play.setAttribute("aria-pressed", String(Boolean(this.timer)));
    document.getElementById("time").value = String(this.frame);
    document.getElementById("clock").textContent = `${frame.time.toFixed(2)} s, frame ${this.frame + 1} of ${this.data.frames.length}`;
    [...document.getElementById("conditions").children].forEach((button, index) => button.setAttribute("aria-pressed", String(index === this.state.condition)));
    for (const button of document.getElementById("layers").children) button.setAttribute("aria-pressed", String(this.state.layers[button.dataset.layer]));
  }

  showList(frame, view) {
    const list = document.getElementById("list"), objects = shownObjects(frame, view, this.state);
    list.replaceChildren(...objects.map((object) => {
      const dot = element("span", { class: "dot" + (object.found ? "" : " true") });
      dot.style.background = dot.style.borderColor = object.colour;
      return element("button", { type: "button", "aria-pressed": String(object === this.state.chosen), onclick: () => this.select(object) },
        dot, object.found ? `${object.name} ${object.score.toFixed(2)}` : object.name);
    }));
    if (objects.length === 0) list.append(element("p", { class: "note" }, "none"));
  }

  showObject() {
    const panel = document.getElementById("object"), object = this.state.chosen;
    if (!object) {
      const words = this.data.has_run ? "Click a box to see what it trusts and where its query looked." : "Click a box to see what it is.";
      panel.replaceChildren(element("h2", {}, "No object chosen"), element("p", { class: "note" }, words));
      return;
    }
    const distance = Math.hypot(object.center[0], object.center[1]);
    const facts = [["from the car", `${distance.toFixed(1)} m`], ["size", object.size.map((value) => value.toFixed(2)).join(" x ") + " m"]];
    if (object.found) facts.unshift(["score", object.score.toFixed(3)]);
    if (object.points !== undefined) facts.push(["LiDAR points", String(object.points)]);
    if (object.speed !== null && object.speed !== undefined) facts.push(["speed", `${object.speed.toFixed(1)} m/s`]);
    panel.replaceChildren(element("h2", {}, `${object.found ? "Found" : "True"}: ${object.name}`),
      element("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
    if (object.trust && object.trust.length > 0) panel.append(element("h3", {}, "Trust, -1 to 1"), this.bars(this.data.sensors, object.trust, true));
    if (object.mass && object.mass.length > 0)
      panel.append(element("h3", {}, "Where its attention lies"), this.bars(["grid (LiDAR)", ...this.data.cameras.map((camera) => camera.name)], object.mass, false));
    if (object.window) panel.append(element("p", { class: "note" }, this.data.window_note));
  }

  bars(names, values, signed) {
    return element("div", { class: "bars" }, ...values.flatMap((value, index) => {
      const bar = element("i", {});
      bar.style.left = signed ? `${50 + Math.min(value, 0) * 50}%` : "0";
      bar.style.width = signed ? `${Math.abs(value) * 50}%` : `${value * 100}%`;
      return [element("span", {}, names[index] ?? `sensor ${index}`), element("span", { class: "track" + (signed ? " signed" : "") }, bar),
        element("b", {}, signed ? value.toFixed(2) : `${(100 * value).toFixed(1)} %`)];
    }));
  }
}

function startScene() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const stored = memory.get("theme");
  if (theme.choices.includes(stored)) theme.choice = stored;
  const button = document.getElementById("theme"), name = () => { button.textContent = `Theme: ${theme.choice}`; };
  button.addEventListener("click", () => {
    theme.choice = theme.choices[(theme.choices.indexOf(theme.choice) + 1) % theme.choices.length];
    memory.set("theme", theme.choice);
    name();
    theme.apply();
  });
  name();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme.apply());
  theme.apply();
  document.getElementById("title").textContent = data.title;
  document.getElementById("subtitle").textContent = data.subtitle;
  window.scenePage = new ScenePage(data);
  document.documentElement.dataset.ready = "true";
}

startScene();
