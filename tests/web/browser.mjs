// A browser for the tests, and pages of made-up runs.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
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

// The file of the published study's page.
export function makeStudy() {
  const out = join(scratch, "study.html");
  execFileSync(process.env.CAMBER_MADE_REPORT, [fileURLToPath(new URL("../../study", import.meta.url)), out]);
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

// Texts whose contrast with the ground behind them is below what WCAG asks: 4.5, or 3 for large letters. Canvases and images
// are no text.
export function faintTexts(page) {
  return page.evaluate(() => {
    const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const rgba = (colour) => {
      if (!known.has(colour)) {
        pixel.clearRect(0, 0, 1, 1);
        pixel.fillStyle = colour;
        pixel.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = pixel.getImageData(0, 0, 1, 1).data;
        known.set(colour, [red, green, blue, alpha / 255]);
      }
      return known.get(colour);
    };
    const over = (above, below) => above.slice(0, 3).map((value, i) => value * above[3] + below[i] * (1 - above[3]));
    const ground = (node) => node ? over(rgba(getComputedStyle(node).backgroundColor), ground(node.parentElement)) : [255, 255, 255];
    const luminance = (colour) => colour.reduce((sum, value, i) => {
      const share = value / 255, linear = share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      return sum + linear * [0.2126, 0.7152, 0.0722][i];
    }, 0);
    const faint = [];
    for (const node of document.querySelectorAll("body *")) {
      const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.textContent.trim()).join("");
      if (!text || ["SCRIPT", "STYLE"].includes(node.tagName) || !node.checkVisibility({ checkOpacity: true })) continue;
      const style = getComputedStyle(node), below = ground(node);
      const [dark, light] = [luminance(over(rgba(style.color), below)), luminance(below)].sort((a, b) => a - b);
      const contrast = (light + 0.05) / (dark + 0.05), size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 600);
      if (contrast < (large ? 3 : 4.5)) faint.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
    }
    return faint;
  });
}
