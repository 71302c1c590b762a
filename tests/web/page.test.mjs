import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, makePage, open } from "./browser.mjs";

let browser, finished;
before(async () => {
  browser = await launch();
  finished = makePage("healthy");
});
after(async () => browser.close());

const chart = (page, title) => page.locator(".chart", { has: page.locator(`h3:text-is("${title}")`) });

// How many pixels of a chart's canvas are drawn on, and a sum over them that changes when they do.
async function ink(locator) {
  await locator.scrollIntoViewIfNeeded();
  await locator.locator("canvas").waitFor();
  return locator.locator("canvas").evaluate(async (canvas) => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let drawn = 0, sum = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 0) drawn += 1;
      sum = (sum * 31 + data[i] + 3 * data[i + 1] + 7 * data[i + 2] + 11 * data[i + 3]) % 1000000007;
    }
    return { drawn, sum };
  });
}

const shownSteps = (locator) => locator.evaluate((node) => {
  const { min, max } = node.view.plot.scales.x;
  return [min, max];
});

test("draws every chart without a complaint and without a request", async () => {
  const { page, context, complaints, foreign } = await open(browser, finished);
  await page.locator("#heads summary").click();
  const charts = page.locator(".chart");
  const count = await charts.count();
  assert.ok(count >= 25, `${count} charts`);
  for (let index = 0; index < count; ++index) {
    const { drawn } = await ink(charts.nth(index));
    assert.ok(drawn > 500, `chart ${index} shows ${drawn} pixels`);
  }
  assert.deepEqual(complaints, []);
  assert.deepEqual(foreign(), []);
  await context.close();
});

test("shows the scale between its bounds, and hides a series on demand", async () => {
  const { page, context } = await open(browser, finished);
  const scale = chart(page, "Scale bias");
  assert.deepEqual((await scale.locator(".legend button").allInnerTexts()).map((text) => text.split(/\s/)[0]),
    ["scale", "min", "max", "warn"]);
  const before = await ink(scale);
  const button = scale.locator(".legend button").first();
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  assert.notEqual((await ink(scale)).sum, before.sum);
  await button.focus();
  await page.keyboard.press("Enter");
  assert.equal((await ink(scale)).sum, before.sum);
  await context.close();
});

test("zooms by drag, by keys and back, all charts over steps together", async () => {
  const { page, context, complaints } = await open(browser, finished);
  const entropy = chart(page, "Entropy"), saturated = chart(page, "Saturated rows");
  await ink(entropy);
  await ink(saturated);
  const box = await entropy.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 5 });
  await page.mouse.up();
  const [from, to] = await shownSteps(entropy);
  assert.ok(Math.abs(from - 150) < 12 && Math.abs(to - 300) < 12, `${from} to ${to}`);
  assert.deepEqual(await shownSteps(saturated), [from, to]);
  await entropy.locator(".plot").focus();
  await page.keyboard.press("0");
  assert.deepEqual(await shownSteps(saturated), [1, 600]);
  await page.keyboard.press("+");
  const [left, right] = await shownSteps(entropy);
  assert.ok(right - left < 320, `${left} to ${right}`);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Escape");
  assert.deepEqual(await shownSteps(entropy), [1, 600]);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("says the values under the cursor", async () => {
  const { page, context } = await open(browser, finished);
  const scale = chart(page, "Scale bias");
  await ink(scale);
  const value = scale.locator(".legend .value").first();
  const last = await value.innerText();
  await scale.locator(".plot").focus();
  await page.keyboard.press("PageUp");
  assert.notEqual(await value.innerText(), last);
  await context.close();
});

test("draws a curve with a spike on a logarithmic axis, and changes it on demand", async () => {
  const { page, context } = await open(browser, finished);
  const loss = chart(page, "Loss"), scale = chart(page, "Scale bias");
  await ink(loss);
  await ink(scale);
  assert.equal(await scale.locator('button[aria-label="Logarithmic axis"]').count(), 0);  // it has bounds to show
  const spiked = await page.evaluate(() => {
    const values = Array.from({ length: 100 }, (_, step) => step === 0 ? 2000 : 5 + Math.sin(step));
    const data = { title: "spike", note: "", x_label: "step", points: 100, y_min: null, y_max: null,
      x: values.map((_, step) => step), series: [{ name: "norm", role: "line", values }] };
    const flat = { ...data, series: [{ ...data.series[0], values: values.map(() => 5) }] };
    return [new ChartView(data).log, new ChartView(flat).log];
  });
  assert.deepEqual(spiked, [true, false]);
  const before = await ink(loss);
  await loss.locator(".plot").focus();
  await page.keyboard.press("l");
  assert.notEqual((await ink(loss)).sum, before.sum);
  await page.keyboard.press("l");
  assert.equal((await ink(loss)).sum, before.sum);
  await context.close();
});

test("turns charts of white ground dark with the page, and scrolls wide tables beside their first column", async () => {
  const { page, context } = await open(browser, finished, { colorScheme: "dark", viewport: { width: 400, height: 800 } });
  const filter = await page.evaluate(() => {
    const image = document.createElement("img");
    image.className = "vector";
    document.querySelector("main").append(image);
    return getComputedStyle(image).filter;
  });
  assert.match(filter, /invert/);
  const region = page.locator(".scroll").first();
  await region.scrollIntoViewIfNeeded();
  const cell = region.locator("tbody td").first();
  const left = (await cell.boundingBox()).x;
  await region.evaluate((node) => { node.scrollLeft = 120; });
  assert.ok(Math.abs((await cell.boundingBox()).x - left) < 2);
  await context.close();
});

test("says what is wrong, worst first, and how many", async () => {
  const { page, context } = await open(browser, makePage("saturated_softmax"));
  assert.match(await page.locator("#health li").first().innerText(), /alarm[\s\S]*softmax of layer2 is saturated/);
  assert.equal(await page.locator(".tile .value.alarm").innerText(), "alarm");
  await context.close();
  const healthy = await open(browser, finished);
  assert.match(await healthy.page.locator("#health li").innerText(), /^good/);
  await healthy.context.close();
});

test("has a light and a dark look, by the system or by choice", async () => {
  const { page, context } = await open(browser, finished, { colorScheme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), "rgb(18, 20, 23)");
  const scale = chart(page, "Scale bias");
  const dark = await ink(scale);
  await page.locator("#theme").click();
  assert.equal(await page.locator("#theme").innerText(), "Theme: light");
  assert.equal(await ground(), "rgb(247, 247, 245)");
  assert.notEqual((await ink(scale)).sum, dark.sum);
  await context.close();
});

test("fits a phone", async () => {
  const { page, context, complaints } = await open(browser, finished,
    { viewport: { width: 400, height: 800 }, hasTouch: true, isMobile: true });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 400, `the page is ${width} wide`);
  const box = await chart(page, "Scale bias").boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 400);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("prints every chart on white, also from a dark screen", async () => {
  const { page, context } = await open(browser, finished, { colorScheme: "dark" });
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
  assert.equal(await page.evaluate(() => [...document.querySelectorAll(".chart")].every((node) => node.view.plot)), true);
  assert.equal(await page.locator("nav").isVisible(), false);
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 20000);
  await context.close();
});

test("can be walked by keyboard alone", async () => {
  const { page, context } = await open(browser, finished);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  const reached = new Set();
  for (let press = 0; press < 60; ++press) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => document.activeElement.closest("section")?.id || document.activeElement.closest("nav")?.id
      || document.activeElement.id));
  }
  for (const position of ["theme", "contents", "results", "scale"]) assert.ok(reached.has(position), position);
  await context.close();
});

// Marks the page that is there; one that is just loading itself anew is marked once it stands.
async function mark(page) {
  for (let tries = 0; ; ++tries) {
    try {
      return await page.evaluate(() => { window.marked = true; });
    } catch (error) {
      if (tries === 5 || !/context was destroyed/.test(error.message)) throw error;
      await page.waitForLoadState();
    }
  }
}

test("loads itself anew while a run goes on, and can be stopped", async () => {
  const { page, context, foreign } = await open(browser, makePage("healthy", { steps: 60, running: true, refresh: 2 }));
  assert.match(await page.locator("#live").innerText(), /Live/);
  await mark(page);
  await page.waitForFunction(() => !window.marked && document.documentElement.dataset.ready);
  await page.locator("#live").click();
  await mark(page);
  await page.waitForTimeout(3000);
  assert.equal(await page.evaluate(() => window.marked), true);
  assert.deepEqual(foreign(), []);
  await context.close();
});
