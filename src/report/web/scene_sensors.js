// How far the sensors of each frame agree, and what became of the alarms of their cues, over the scene and now.
const alarmWords = { none: "no alarm", raised: "alarm", kept: "alarm kept", dropped: "alarm dropped", off: "delivers nothing" };
const gravest = ["kept", "raised", "dropped", "off", "none"];

class SensorPanel {
  constructor(data, go) {
    this.data = data;
    this.panel = document.getElementById("sensors");
    this.canvas = element("canvas", { class: "course", role: "img", tabindex: "-1" });
    this.now = element("p", { class: "note" });
    this.rows = element("div", { class: "sensors" });
    const views = data.frames.flatMap((frame) => frame.views);
    this.panel.hidden = !views.some((view) => view.alarms);
    this.known = views.some((view) => typeof view.agreement === "number");
    if (this.panel.hidden) return;
    const marks = ["kept", "dropped", "raised", "off"].filter((state) => views.some((view) => view.alarms.some((alarm) => alarm.state === state)));
    const legend = element("p", { class: "note legend" }, ...marks.flatMap((state) => [element("i", { class: "mark " + state }), alarmWords[state] + " "]));
    const title = this.known ? "Agreement of the sensors, and alarms" : "Alarms of the cues";
    this.panel.append(element("h2", {}, title), this.canvas, legend, this.now, this.rows);
    this.canvas.addEventListener("pointerdown", (event) => go(this.frameAt(event)));
    this.canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) go(this.frameAt(event)); });
  }

  frameAt(event) {
    const box = this.canvas.getBoundingClientRect(), share = (event.clientX - box.left - this.left) / Math.max(1, box.width - this.left - 6);
    return Math.round(Math.min(Math.max(share, 0), 1) * (this.data.frames.length - 1));
  }

  // The LiDAR's state, and the gravest of the cameras'.
  states(view) {
    const cameras = view.alarms.slice(1).map((alarm) => alarm.state);
    return [view.alarms[0].state, gravest.find((state) => cameras.includes(state)) ?? "none"];
  }

  show(frame, condition) {
    if (this.panel.hidden) return;
    const view = this.data.frames[frame].views[condition];
    this.draw(frame, condition);
    const words = this.sentence(view.agreement);
    this.now.textContent = words;
    this.canvas.setAttribute("aria-label", `${words} LiDAR: ${alarmWords[this.states(view)[0]]}. Cameras: ${alarmWords[this.states(view)[1]]}.`);
    const names = ["LiDAR", ...this.data.cameras.map((camera) => camera.name)];
    const agreement = [view.agreement, ...(view.camera_agreement || [])];
    this.rows.replaceChildren(...view.alarms.flatMap((alarm, index) => this.row(names[index] ?? `sensor ${index}`, agreement[index], alarm)));
  }

  sentence(agreement) {
    if (!this.known) return `The detector has no dense heads: no alarm can be verified. Policy: ${this.data.policy}.`;
    if (typeof agreement !== "number") return "Agreement is not known here: it speaks against no alarm.";
    const value = `Agreement ${agreement.toFixed(2)}`, threshold = this.data.threshold;
    if (typeof threshold !== "number") return `${value}; policy: ${this.data.policy}, no threshold is calibrated.`;
    const side = agreement >= threshold ? "above" : "below", verified = this.data.policy.startsWith("verified");
    const then = verified ? (agreement >= threshold ? ": alarms are dropped" : ": alarms are kept") : "";
    return `${value}, ${side} the threshold ${threshold.toFixed(2)}${then}. Policy: ${this.data.policy}.`;
  }

  row(name, agreement, alarm) {
    const known = typeof agreement === "number", bar = element("i", {});
    bar.style.left = known ? `${50 + Math.min(agreement, 0) * 50}%` : "0";
    bar.style.width = known ? `${Math.abs(agreement) * 50}%` : "0";
    const words = alarmWords[alarm.state] + (alarm.taken_out ? ", taken out" : "");
    const said = element("span", { class: "said " + alarm.state }, element("i", { class: "mark " + alarm.state }), words);
    said.title = `age ${alarm.age.toFixed(2)}`;
    return [element("span", {}, name), element("span", { class: "track signed" }, bar), element("b", {}, known ? agreement.toFixed(2) : "–"), said];
  }

  draw(frame, condition) {
    const { context, width, height } = prepared(this.canvas), frames = this.data.frames, last = Math.max(1, frames.length - 1);
    this.left = 52;
    const rows = 30, top = 6, bottom = height - rows - 6, right = width - 6;
    const x = (index) => this.left + index / last * (right - this.left);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (this.known) this.drawAgreement(context, condition, x, top, bottom, right);
    ["LiDAR", "cameras"].forEach((name, row) => {
      const y = height - rows + 6 + 16 * row;
      context.fillStyle = theme.colour("soft");
      context.fillText(name, 0, y);
      frames.forEach((one, index) => this.drawMark(context, this.states(one.views[condition])[row], x(index), y));
    });
    context.strokeStyle = theme.colour("accent");
    context.beginPath();
    context.moveTo(x(frame), this.known ? top : height - rows);
    context.lineTo(x(frame), height);
    context.stroke();
  }

  drawAgreement(context, condition, x, top, bottom, right) {
    const values = this.data.frames.map((frame) => frame.views[condition].agreement);
    const low = Math.min(0, ...values.filter((value) => typeof value === "number"));
    const y = (value) => bottom - (value - low) / (1 - low) * (bottom - top);
    context.fillStyle = theme.colour("soft");
    const lines = [[0, "0"], [1, "1"]];
    const threshold = this.data.threshold;
    context.strokeStyle = theme.colour("grid");
    for (const [value, words] of lines) {
      context.fillText(words, this.left - 14, y(value));
      context.beginPath();
      context.moveTo(this.left, y(value));
      context.lineTo(right, y(value));
      context.stroke();
    }
    if (typeof threshold === "number") {
      context.strokeStyle = theme.colour("soft");
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(this.left, y(threshold));
      context.lineTo(right, y(threshold));
      context.stroke();
      context.setLineDash([]);
      context.fillText(threshold.toFixed(2), 0, y(threshold));
    }
    context.strokeStyle = context.fillStyle = theme.colour("ink");
    context.lineWidth = 1.6;
    context.beginPath();
    values.forEach((value, index) => {
      if (typeof value !== "number") return;
      if (typeof values[index - 1] === "number") context.lineTo(x(index), y(value));
      else context.moveTo(x(index), y(value));
    });
    context.stroke();
    context.lineWidth = 1;
    // A frame between two unknown ones has no line: every frame has its dot.
    values.forEach((value, index) => { if (typeof value === "number") { context.beginPath(); context.arc(x(index), y(value), 1.8, 0, 7); context.fill(); } });
  }

  drawMark(context, state, x, y) {
    if (state === "none") return;
    context.strokeStyle = context.fillStyle = theme.colour({ kept: "alarm", raised: "warning", dropped: "good", off: "soft" }[state]);
    context.lineWidth = 1.5;
    if (state === "off") context.fillRect(x - 3, y - 1, 6, 2);
    else if (state === "dropped") context.strokeRect(x - 3, y - 3, 6, 6);
    else context.fillRect(x - 3.5, y - 3.5, 7, 7);
    context.lineWidth = 1;
  }
}
