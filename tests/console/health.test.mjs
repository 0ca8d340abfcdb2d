// The health of the host as charts: by hand, by keys, as a table, and when the host begins anew.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { call, Hand, launch, lever, open, shot, world } from "./world.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

/** How many points of a chart are drawn in a colour other than that of its grid. */
const drawn = (page, id) =>
  page.locator(`#chart-${id} canvas`).evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 0; i < data.length; i += 4) n += data[i + 3] > 200 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60;
    return n;
  });

test("see the host's health of the last hour, day and week", async () => {
  const { page, close } = await open(browser, "#/s/none-of-this", { quiet: false });
  const hand = new Hand(page);
  await hand.press("h");
  for (const [name, span, last] of [["Hour", "hour", 3600], ["Day", "day", 86400], ["Week", "week", 7 * 86400]]) {
    if (span !== "hour") await hand.click(page.getByRole("button", { name, exact: true }));
    await page.locator(".spans button[aria-pressed=true]", { hasText: name }).waitFor();
    await page.locator("#chart-memory canvas").waitFor();
    const { times } = await call("GET", "/health?span=" + span);
    assert.ok(times.length > 300 && times.at(-1) - times[0] > last * 0.9, `${span} has ${times.length} points`);
    for (const id of ["turns", "latency", "tokens", "errors", "size", "memory"]) assert.ok((await drawn(page, id)) > 100, `${id} shows no line in ${span}`);
    await shot(page, "health-" + span);
  }
  hand.within();
  await close();
});

test("the charts by keys, as text and as a table", async () => {
  const { page, close } = await open(browser, "#/health");
  const plot = page.locator("#chart-tokens .plot");
  await page.locator("#chart-tokens canvas").waitFor();
  await plot.focus();
  await plot.press("Home");
  const told = page.locator("#chart-tokens [role=status]");
  const first = await told.textContent();
  assert.match(first, /input [\d.,]+\/s, output [\d.,]+\/s/);
  await plot.press("ArrowRight");
  await page.waitForFunction((was) => document.querySelector("#chart-tokens [role=status]").textContent !== was, first);
  const drew = () => page.evaluate(() => new Promise(requestAnimationFrame));
  const places = () => page.locator(".chart summary").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top));
  for (const width of [1360, 1080, 560, 360]) { // charts stay where they are, whatever the legend says
    await page.setViewportSize({ width, height: 860 });
    await plot.focus();
    await drew();
    const at = await places();
    for (const key of ["End", "Home", ...Array(9).fill("ArrowRight")]) {
      await plot.press(key);
      await drew();
      assert.deepEqual(await places(), at, `at ${key}, ${width} pixels wide`);
    }
    await plot.evaluate((e) => e.blur());
  }
  await page.setViewportSize({ width: 1360, height: 860 });
  await page.locator("#chart-tokens summary").click();
  const { times, series } = await call("GET", "/health?span=hour");
  const rows = page.locator("#chart-tokens tbody tr");
  await rows.first().waitFor();
  assert.equal(await rows.count(), Math.min(120, times.length));
  const input = series.find((s) => s.name === "input_tokens").values;
  const shown = await rows.nth(5).locator("td").first().textContent();
  assert.ok(input.slice(-8).some((v) => `${+v.toPrecision(3)}/s` === shown || shown.endsWith("K/s")), `${shown} is not among ${input.slice(-8)}`);
  await page.getByRole("button", { name: "auto" }).click(); // light: the lines are drawn anew
  await page.getByRole("button", { name: "light" }).click(); // dark
  assert.ok((await drawn(page, "tokens")) > 100);
  await close();
});

test("charts want the scope metrics", async () => {
  const { page, close } = await open(browser, "#/health", { url: world.guarded, quiet: false });
  await page.getByLabel("Token").fill(world.admin);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByText("The charts need a token with the scope metrics.").waitFor();
  await close();
});
