// The images of pages that the documentation shows: node screenshots.mjs REPORT.html SCENE.html FOLDER
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { launch } from "../tests/web/browser.mjs";

const [report, scene, folder] = process.argv.slice(2);
const browser = await launch();

async function shoot(file, { width, height, colorScheme }, name, prepare) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  if (prepare) await prepare(page);
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, name), ...(name.endsWith(".jpg") ? { quality: 85 } : {}) });
  await page.close();
}

await shoot(report, { width: 1200, height: 1365, colorScheme: "light" }, "report.png");
await shoot(scene, { width: 1400, height: 1100, colorScheme: "dark" }, "scene.jpg", async (page) => {
  await page.locator("#time").fill("5");
  await page.waitForFunction(() => document.documentElement.dataset.shown === "5/0");
  await page.locator("#list button").first().click();
});
await browser.close();
