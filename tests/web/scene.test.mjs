import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { after, before, test } from "node:test";
import { launch, makeScene, open } from "./browser.mjs";

let browser, scene;
before(async () => {
  browser = await launch();
  scene = makeScene();
});
after(async () => browser.close());

const shown = (page, what) => page.waitForFunction((wanted) => document.documentElement.dataset.shown === wanted, what);

// A sum over a canvas that changes when what is drawn does, and how many colours it has.
const ink = (page, selector) => page.locator(selector).evaluate((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) {
    sum = (sum * 31 + data[i] + 3 * data[i + 1] + 7 * data[i + 2]) % 1000000007;
    colours.add((data[i] >> 4) * 256 + (data[i + 1] >> 4) * 16 + (data[i + 2] >> 4));
  }
  return { sum, colours: colours.size };
});

test("draws the bird's-eye view and every camera, without a complaint and without a request", async () => {
  const { page, context, complaints, foreign } = await open(browser, scene);
  await shown(page, "0/0");
  for (const selector of ["#bird", ".camera:nth-child(1) canvas", ".camera:nth-child(2) canvas"])
    assert.ok((await ink(page, selector)).colours > 4, selector);
  assert.equal(await page.locator("#title").innerText(), "scene-<1>");
  assert.deepEqual(complaints, []);
  assert.deepEqual(foreign(), []);
  await context.close();
});

test("moves through time by slider, keys and play", async () => {
  const { page, context, complaints } = await open(browser, scene);
  await shown(page, "0/0");
  const first = await ink(page, "#bird");
  await page.locator("#time").fill("2");
  await shown(page, "2/0");
  assert.notEqual((await ink(page, "#bird")).sum, first.sum);
  assert.match(await page.locator("#clock").innerText(), /1\.00 s, frame 3 of 4/);
  await page.locator("body").press("End");
  await shown(page, "3/0");
  await page.keyboard.press("Home");
  await shown(page, "0/0");
  assert.equal((await ink(page, "#bird")).sum, first.sum);
  await page.locator("#play").click();
  assert.equal(await page.locator("#play").innerText(), "Pause");
  await shown(page, "3/0");  // plays to the end and stops there
  await page.waitForFunction(() => document.getElementById("play").textContent === "Play");
  // The browser minds how often this test reads the canvas back, which the page never does.
  assert.deepEqual(complaints.filter((text) => !text.includes("willReadFrequently")), []);
  await context.close();
});

test("shows trust, attention and windows of a clicked object, and follows it", async () => {
  const { page, context } = await open(browser, scene);
  await shown(page, "0/0");
  const box = await page.locator("#bird").boundingBox();
  const scale = box.width / 80;  // 40 m from the middle to the edge
  await page.mouse.click(box.x + box.width / 2 - 2 * scale, box.y + box.height / 2 - 10.4 * scale);
  const panel = page.locator("#object");
  assert.match(await panel.innerText(), /Found: car/);
  assert.match(await panel.innerText(), /0\.870/);
  assert.deepEqual(await panel.locator(".bars b").allInnerTexts(), ["0.90", "0.70", "60.0 %", "30.0 %", "10.0 %"]);
  assert.match(await page.locator(".camera:nth-child(1) .mass").innerText(), /30\.0 %/);
  await page.keyboard.press("ArrowRight");
  await shown(page, "1/0");
  assert.match(await panel.innerText(), /Found: car/);
  await page.keyboard.press("Escape");
  assert.match(await panel.innerText(), /No object chosen/);
  assert.equal(await page.locator(".camera:nth-child(1) .mass").isVisible(), false);
  await page.keyboard.press("n");
  assert.match(await panel.innerText(), /Found: car/);
  await page.keyboard.press("n");
  assert.match(await panel.innerText(), /True: car[\s\S]*42/);
  // A click on a camera picks there too.
  const camera = await page.locator(".camera:nth-child(1) canvas").boundingBox();
  const hit = await page.evaluate(() => window.scenePage.cameras[0].hits[0].at);
  await page.mouse.click(camera.x + hit[0], camera.y + hit[1]);
  assert.match(await panel.innerText(), /Found: car/);
  await context.close();
});

test("switches between the sensors as recorded and under a fault", async () => {
  const { page, context } = await open(browser, scene);
  await shown(page, "0/0");
  await page.locator("#list button").first().click();
  const clean = await ink(page, ".camera:nth-child(2) canvas");
  await page.locator("#conditions button").nth(1).click();
  await shown(page, "0/1");
  assert.equal(await page.locator("#conditions button").nth(1).getAttribute("aria-pressed"), "true");
  assert.notEqual((await ink(page, ".camera:nth-child(2) canvas")).sum, clean.sum);
  assert.equal(await page.locator("#object .bars b").nth(1).innerText(), "-0.40");  // the same object trusts the cameras less
  await page.keyboard.press("f");
  await shown(page, "0/0");
  await context.close();
});

test("tells how far the sensors agree and what became of alarms, over time", async () => {
  const { page, context, complaints } = await open(browser, scene);
  await shown(page, "0/0");
  const panel = page.locator("#sensors"), said = () => panel.locator(".said").allInnerTexts();
  assert.match(await panel.innerText(), /Agreement 0\.40, above the threshold 0\.16: alarms are dropped\. Policy: verified_bias/);
  assert.deepEqual(await panel.locator("b").allInnerTexts(), ["0.40", "0.45", "–"]);
  assert.deepEqual(await said(), ["no alarm", "no alarm", "no alarm"]);
  const first = await ink(page, "#sensors canvas");
  assert.ok(first.colours > 4);
  await page.keyboard.press("ArrowRight");
  await shown(page, "1/0");
  assert.deepEqual(await said(), ["alarm dropped", "no alarm", "no alarm"]);
  assert.match(await page.locator("#sensors canvas").getAttribute("aria-label"), /LiDAR: alarm dropped\. Cameras: no alarm\./);
  assert.notEqual((await ink(page, "#sensors canvas")).sum, first.sum);
  await page.keyboard.press("f");
  await shown(page, "1/1");
  assert.match(await panel.innerText(), /Agreement -0\.05, below the threshold 0\.16: alarms are kept/);
  assert.deepEqual(await said(), ["no alarm", "alarm kept", "delivers nothing"]);
  // A click on the course goes to the frame there; of the last one nothing is known.
  const course = page.locator("#sensors canvas");
  await course.click({ position: { x: (await course.boundingBox()).width - 8, y: 20 } });
  await shown(page, "3/1");
  assert.match(await panel.innerText(), /Agreement is not known here: it speaks against no alarm/);
  assert.deepEqual(complaints.filter((text) => !text.includes("willReadFrequently")), []);
  await context.close();
});

test("hides what is not wanted", async () => {
  const { page, context } = await open(browser, scene);
  await shown(page, "0/0");
  const all = await ink(page, "#bird");
  for (const layer of ["truth", "found", "points"]) {
    const button = page.locator(`[data-layer=${layer}]`);
    await button.click();
    assert.equal(await button.getAttribute("aria-pressed"), "false");
    await page.waitForTimeout(50);
    assert.notEqual((await ink(page, "#bird")).sum, all.sum, layer);
    await button.click();
  }
  await context.close();
});

test("has a light and a dark look and fits a phone", async () => {
  const { page, context, complaints } = await open(browser, scene,
    { viewport: { width: 400, height: 800 }, hasTouch: true, isMobile: true, colorScheme: "dark" });
  await shown(page, "0/0");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 400);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), "rgb(18, 20, 23)");
  await page.locator("#theme").click();
  assert.equal(await ground(), "rgb(247, 247, 245)");
  for (const selector of ["#bird", ".camera:nth-child(1)", ".camera:nth-child(2)", "#time", "#play", "#sensors canvas", "#sensors .sensors"]) {
    const box = await page.locator(selector).boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 400, selector);
  }
  const top = async (selector) => (await page.locator(selector).boundingBox()).y;
  assert.ok(await top("#bird") < await top("#cameras") && await top("#cameras") < await top("#object")
    && await top("#object") < await top(".objects"));
  assert.deepEqual(complaints, []);
  await context.close();
});

test("opens a long scene in under two seconds of work", async () => {
  const long = makeScene(300);
  assert.ok(statSync(long).size < 15e6);
  const { page, context } = await open(browser, long);
  await shown(page, "0/0");
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  const spent = metrics.find((metric) => metric.name === "TaskDuration").value;
  assert.ok(spent < 2, `${spent} s`);
  await context.close();
});
