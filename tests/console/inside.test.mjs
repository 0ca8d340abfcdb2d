// What is inside of a session: prompts, child sessions, feeds and values, costs.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { call, Hand, launch, onlyText, open, shot, spoken, world } from "./world.mjs";

let browser;
before(async () => {
  browser = await launch();
  await spoken("booking", "inside", "Book Oslo for Ada on 3 May.", "And the same for Ben.");
  await spoken("newsroom", "desk-of-news", "Write about kestrels.");
});
after(() => browser.close());

test("see the prompt as the model saw it, what is new in it, and the raw reply", async () => {
  const { page, close } = await open(browser, "#/s/inside");
  await page.locator(".runfoot").nth(1).waitFor();
  const hand = new Hand(page);
  await hand.press("4");
  await page.locator(".exact", { hasText: /^exact$/ }).waitFor();
  await page.locator(".message.new").first().waitFor();
  assert.ok((await page.locator(".message.same").count()) > 0, "what was there before is folded");
  assert.equal(await page.locator(".message.same pre").count(), 0);
  const { requests } = await call("GET", "/sessions/inside/turns/last/prompt?reply=true");
  assert.equal((await page.locator("pre.raw").textContent()).trim(), requests.at(-1).reply.text.trim());
  await shot(page, "prompt");
  hand.within();
  await page.getByRole("button", { name: "Whole" }).click();
  assert.equal(await page.locator(".messages pre").count(), requests.at(-1).messages.length);
  await page.goto(world.url + "/#/s/inside/prompt?turn=3");
  await page.getByRole("button", { name: "Whole" }).click();
  await page.locator(".message.new", { hasText: "And the same for Ben." }).waitFor();
  const changed = page.locator(".message.changed .diff"); // what the first run came to stands behind its request now
  await changed.locator(".same", { hasText: "Book Oslo for Ada" }).waitFor();
  await changed.locator(".new", { hasText: "[action car bookings: ok]" }).waitFor();
  await page.getByRole("button", { name: "Turn before" }).click();
  await page.locator(".prompt .runpick b", { hasText: /^Turn 2$/ }).waitFor();
  await page.goto(world.url + "/#/s/inside/prompt?turn=1");
  await page.locator(".prompt .runpick b", { hasText: /^Turn 1$/ }).waitFor();
  await page.locator(".message pre").first().waitFor();
  await close();
});

test("follow the sessions of its agents as a tree", async () => {
  const { page, close } = await open(browser, "#/s/desk-of-news");
  const hand = new Hand(page);
  await hand.press("5");
  const nodes = page.locator(".tree .node");
  await nodes.first().locator(".state", { hasText: "done" }).waitFor();
  await shot(page, "context");
  await hand.click(nodes.first().getByRole("link"));
  await page.locator("#parent", { hasText: "works for desk-of-news" }).waitFor();
  hand.within();
  const mine = page.locator('.session.child[href^="#/s/desk-of-news"]'); // in the list, behind the one that they work for
  await mine.first().waitFor();
  const order = await page.locator(".session").evaluateAll((all) => all.map((e) => e.getAttribute("href")));
  assert.match(order[order.indexOf("#/s/desk-of-news") + 1], /^#\/s\/desk-of-news\./);
  await close();
});

test("feeds and values are seen as they change", async () => {
  await call("POST", "/sessions", { agent: "keeper", id: "kept-values" });
  await call("POST", "/sessions/kept-values/runs?wait=60s", { input: "note it" });
  const { page, close } = await open(browser, "#/s/kept-values/context");
  const feed = page.locator('.feed[data-feed="count"]');
  await feed.locator("pre").waitFor();
  const first = await feed.locator("pre").textContent();
  await page.locator(".values tbody tr").first().waitFor();
  const rows = await page.locator(".values tbody tr").count();
  await call("POST", "/sessions/kept-values/runs?wait=60s", { input: "and again" });
  await page.waitForFunction((was) => document.querySelectorAll(".values tbody tr").length > was, rows);
  await page.waitForFunction((was) => document.querySelector('.feed[data-feed="count"] pre').textContent !== was, first);
  await onlyText(page);
  await close();
});

test("know what it costs: by turn, session, agent, model, and against limits", async () => {
  const { page, close } = await open(browser, "#/s/inside");
  const hand = new Hand(page);
  await hand.press("6");
  await page.locator("#turns tbody tr").nth(2).waitFor();
  const { requests } = await call("GET", "/sessions/inside/turns/last/prompt?reply=true");
  const want = requests.reduce((n, r) => n + r.reply.usage.output, 0);
  assert.equal(await page.locator("#turns tbody tr").first().locator("td").nth(3).textContent(), want.toLocaleString("en-GB"));
  assert.equal(await page.locator("#models tfoot td").nth(0).textContent(), String(await page.locator("#turns tbody tr").count()));
  await hand.press("c");
  await page.locator("#limits", { hasText: "Tokens" }).waitFor();
  await page.locator("#agents tbody tr", { hasText: "booking" }).waitFor();
  hand.within();
  await shot(page, "costs");
  await close();
});
