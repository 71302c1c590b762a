// A browser for the tests, and pages of made-up runs.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

function onPath(names) {
  for (const folder of (process.env.PATH || "").split(delimiter)) {
    for (const name of names) if (existsSync(join(folder, name))) return join(folder, name);
  }
  return null;
}

export async function launch() {
  const executablePath = process.env.CAMBER_CHROMIUM || onPath(["chromium", "chromium-browser", "google-chrome"]);
  if (!executablePath) throw new Error("no chromium on PATH: run scripts/setup, or name one in CAMBER_CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

export const scratch = mkdtempSync(join(tmpdir(), "camber-web-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

// The file of a page about a made-up run.
export function makePage(situation, { steps = 600, interval = 10, running = false, refresh = 0 } = {}) {
  const run = join(scratch, `${situation}-${steps}-${running}`), out = run + ".html";
  if (!existsSync(run)) {
    execFileSync(process.env.CAMBER_MADE_RUN, [run, situation, steps, interval, running ? "running" : "finished"].map(String));
  }
  execFileSync(process.env.CAMBER_MADE_REPORT, [run, out, String(refresh)]);
  return out;
}

// The file of a made-up scene's page.
export function makeScene(frames = 4) {
  const out = join(scratch, `scene-${frames}.html`);
  execFileSync(process.env.CAMBER_MADE_SCENE, [out, String(frames)]);
  return out;
}

// Opens a page; what it complains of and what it asks for is written down.
export async function open(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints = [], requests = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  const url = pathToFileURL(file).href;
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  const foreign = () => requests.filter((address) => !address.startsWith("data:") && address !== url);
  return { page, context, complaints, foreign };
}
