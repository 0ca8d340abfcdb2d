// The console at three sizes, light and dark: nothing that a reader of screens would stumble
// over, nothing wider than the screen. Screenshots are kept where STILE_SCREENSHOTS says.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, call, launch, onlyText, open, picture, shot, spoken, world } from "./world.mjs";

let browser;
before(async () => {
  browser = await launch();
  await spoken("booking", "looks", "Book Oslo for Ada on 3 May.", "And the same for Ben.");
  await spoken("plain", "hostile", world.hostile);
  await call("PATCH", "/sessions/hostile", { title: world.hostile.slice(0, 90), tags: ["<img/src=x/onerror=alert(1)>"] });
  await spoken("endless-loop", "looks-loop", "Go on.");
  await spoken("newsroom", "looks-news", "Write about kestrels.");
  await call("POST", "/sessions", { agent: "clerk", id: "looks-waits" });
  await call("POST", "/sessions/looks-waits/runs", { input: "pay" });
});
after(() => browser.close());

const sizes = { wide: { width: 1440, height: 900 }, tablet: { width: 900, height: 1100 }, phone: { width: 390, height: 844 } };
const places = {
  list: ["#/", ".session"],
  talk: ["#/s/looks", ".runfoot"],
  time: ["#/s/looks/time", ".bar.stream"],
  records: ["#/s/looks/records", ".record"],
  record: ["#/s/looks?record=5", ".inspect .facts"],
  stopped: ["#/s/looks-loop", ".stopped"],
  prompt: ["#/s/looks/prompt?turn=3", ".message.changed"],
  context: ["#/s/looks-news/context", ".tree .node .state"],
  sums: ["#/s/looks/costs", "#turns tbody tr"],
  compare: ["#/s/looks/compare", ".pair.differs"],
  inbox: ["#/inbox", "article .approval"],
  costs: ["#/costs", "#limits"],
  health: ["#/health", "#chart-memory canvas"],
  admin: ["#/admin", "form.row"],
};

for (const [size, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${size}, ${colorScheme}`, async () => {
      const { page, close } = await open(browser, "", { viewport, colorScheme });
      for (const [name, [hash, there]] of Object.entries(places)) {
        await page.goto(world.url + "/" + hash);
        await page.locator(there).first().waitFor();
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than the screen`);
        await accessible(page, `${name}, ${size}, ${colorScheme}`);
        await shot(page, `${name}-${size}-${colorScheme}`);
      }
      await close();
    });
  }
}

after(() => call("DELETE", "/sessions/looks-waits"));

test("hostile content is text in every view", async () => {
  const { page, close } = await open(browser, "#/s/hostile");
  await page.locator(".talk .user", { hasText: "<img src=x" }).waitFor();
  await page.locator("#name", { hasText: "<img src=x" }).waitFor();
  for (const tab of await page.locator(".tabs a").all()) {
    await tab.click();
    await page.locator('.tabs a[aria-current="page"]', { hasText: await tab.textContent() }).waitFor();
    await onlyText(page);
  }
  await close();
});

test("the pictures of the documentation", async () => {
  const titles = ["Opening hours in winter", "A refund for order 1207", "Notes of the field trip", "Which stile for a bull?", "Translate the menu", "Kestrels, second look", "Invoice of April", "A poem on gates", "Rota for the weekend"];
  for (const [i, title] of titles.entries()) {
    await spoken("plain", `desk-${i}`, title);
    await call("PATCH", `/sessions/desk-${i}`, { title, tags: i % 3 ? [] : ["team=desk"] });
  }
  await call("PATCH", "/sessions/looks", { title: "A trip for two", tags: ["team=travel"] });
  const { page, close } = await open(browser, "#/s/looks", { viewport: { width: 1120, height: 700 } });
  await page.locator(".runfoot").nth(1).waitFor();
  await page.locator(".session", { hasText: "A trip for two" }).waitFor();
  await picture(page, "console-conversation");
  await page.goto(world.url + "/#/s/looks/time?turn=3");
  await page.locator('.turnline[data-turn="3"] .bar.failed').first().click();
  await page.getByRole("button", { name: "Check the proof" }).click();
  await page.locator(".proof.good").waitFor();
  await picture(page, "console-timeline");
  await page.goto(world.url + "/#/health");
  await page.getByRole("button", { name: "Week" }).click();
  await page.locator("#chart-turns canvas").waitFor();
  await picture(page, "console-health");
  await close();
});
