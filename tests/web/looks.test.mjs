// How the pages look on a wide and on a narrow screen, by day and by night: nothing sticks out, every text can be read.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { faintTexts, launch, makePage, makeScene, makeStudy, open } from "./browser.mjs";

let browser;
const files = {};
before(async () => {
  browser = await launch();
  files.run = makePage("saturated_softmax");
  files.study = makeStudy();
  files.scene = makeScene();
});
after(async () => browser.close());

const screens = [{ width: 1400, height: 900 }, { width: 400, height: 800 }];
const looks = screens.flatMap((viewport) => ["light", "dark"].map((colorScheme) => ({ viewport, colorScheme })));

for (const name of ["run", "study", "scene"]) {
  test(`the page of a ${name} fits its screen and can be read`, async () => {
    for (const look of looks) {
      const { page, context, complaints } = await open(browser, files[name], look);
      const words = `${look.viewport.width} ${look.colorScheme}`;
      for (const details of await page.locator("details > summary").all()) await details.click();
      if (name === "scene") await page.keyboard.press("n");
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= look.viewport.width, words);
      assert.deepEqual(await faintTexts(page), [], words);
      assert.deepEqual(complaints, [], words);
      await context.close();
    }
  });
}

test("the tables of a study are whole on a wide screen, and their rows have names on a narrow one", async () => {
  const wide = await open(browser, files.study, { viewport: screens[0] });
  const cut = await wide.page.locator(".scroll").evaluateAll((nodes) => nodes
    .filter((node) => node.scrollWidth > node.clientWidth + 1).map((node) => node.getAttribute("aria-label")));
  assert.deepEqual(cut, []);
  await wide.context.close();
  const narrow = await open(browser, files.study, { viewport: screens[1] });
  for (const region of await narrow.page.locator(".scroll").all()) {
    const cell = region.locator("tbody td").first(), second = region.locator("tbody td").nth(1);
    const left = (await cell.boundingBox()).x;
    await region.evaluate((node) => { node.scrollLeft = 80; });
    const [name, number] = [await cell.boundingBox(), await second.boundingBox()];
    assert.ok(Math.abs(name.x - left) < 2);
    assert.ok(name.width <= 160 && name.width + number.width < 400, `${name.width} + ${number.width}`);
    await region.evaluate((node) => { node.scrollLeft = 0; });
  }
  await narrow.context.close();
});

test("a study's heat map is a table, shaded from worse to better", async () => {
  const { page, context } = await open(browser, files.study, { viewport: screens[1] });
  const map = page.locator(".scroll[aria-label='What each arm adds']");
  assert.ok(await map.locator("tbody tr").count() > 20);
  assert.equal(await page.locator("img").count(), 0);  // no letters in images that shrink
  const share = (cell) => cell.evaluate((node) => parseFloat(node.style.getPropertyValue("--shade-share")));
  const cell = (arm, column) => map.locator("tr", { has: page.locator(`td:text-is("${arm}")`) }).locator("td").nth(column);
  const better = cell("learned with cues and segments", 1), none = cell("constant w = +1", 1), own = cell("no bias", 1);
  assert.equal(await better.innerText(), "+10.8");
  assert.ok(await better.evaluate((node) => node.classList.contains("better")));
  assert.ok(await share(better) > 50 && await share(none) < 5);
  assert.ok(await own.evaluate((node) => node.classList.contains("own")));
  assert.ok(await map.locator("td.worse").count() > 5);
  await context.close();
});

test("a study's intervals stand where their numbers say, beside or below their names", async () => {
  for (const viewport of screens) {
    const { page, context } = await open(browser, files.study, { viewport });
    const forest = page.locator(".forest").first();
    const label = await forest.locator(".label").first().boundingBox(), track = await forest.locator(".track").first().boundingBox();
    const words = await forest.locator(".words").first().boundingBox();
    if (viewport.width > 560) assert.ok(label.x + label.width <= track.x && track.x + track.width <= words.x);
    else assert.ok(label.y + label.height <= track.y + 1 && track.x + track.width <= words.x && words.x + words.width <= viewport.width);
    assert.match(await forest.locator(".words").first().innerText(), /^\+10\.77 +better$/);
    const middle = async (locator) => { const box = await locator.boundingBox(); return box.x + box.width / 2; };
    const zero = await middle(forest.locator(".tick.zero").first()), mean = await middle(forest.locator(".mean").first());
    const ten = await middle(forest.locator(".axis .number", { hasText: /^10$/ }));
    assert.ok(Math.abs((mean - zero) / (ten - zero) - 1.077) < 0.02, `${zero} ${mean} ${ten}`);
    await context.close();
  }
});

test("a long table shows its first rows until all are wanted", async () => {
  const { page, context } = await open(browser, files.study);
  const first = page.locator(".panel", { has: page.locator(".more") }).first();
  const panel = page.locator(".panel", { has: page.locator(`h3:text-is("${await first.locator("h3").innerText()}")`) });
  const visible = () => panel.locator("tbody tr").evaluateAll((rows) => rows.filter((row) => row.checkVisibility()).length);
  assert.equal(await visible(), 25);
  const all = Number((await panel.locator(".more").innerText()).match(/\d+/)[0]);
  await panel.locator(".more").click();
  assert.equal(await visible(), all);
  await context.close();
});

test("a line beyond the colours of the palette is dotted", async () => {
  const { page, context } = await open(browser, files.run);
  const drawn = await page.evaluate(() => {
    const series = Array.from({ length: 10 }, (_, index) => ({ name: `term ${index}`, role: "line", values: [1, 2, 3] }));
    const view = new ChartView({ title: "terms", note: "", x_label: "step", points: 3, y_min: null, y_max: null, x: [1, 2, 3], series });
    return view.options().series.slice(1).map((one) => Boolean(one.dash));
  });
  assert.deepEqual(drawn, [false, false, false, false, false, false, false, false, true, true]);
  await context.close();
});
