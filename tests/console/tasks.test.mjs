// What a person comes for, each within three clicks or keys from a session.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, begin, call, Hand, launch, onlyText, open, said, send, shot, spoken, world } from "./world.mjs";

let browser;
before(async () => {
  browser = await launch();
  await spoken("booking", "trip", "Book Oslo for Ada on 3 May.", "And the same for Ben.");
  await call("PATCH", "/sessions/trip", { title: "Oslo in May", tags: ["team=travel", "vip"] });
  await spoken("research", "birds", "How many kestrels?");
  await spoken("endless-loop", "loop", "Go on.");
  await spoken("plain", "note", "Hello.");
});
after(() => browser.close());

test("find a session: text, tag, agent, decision", async () => {
  const { page, close } = await open(browser, "#/s/note");
  const hand = new Hand(page);
  const rows = page.locator(".session");
  await rows.first().waitFor();
  assert.match(await rows.first().textContent(), /note/); // the one that changed last
  await hand.press("/");
  await page.keyboard.type("oslo");
  await page.waitForFunction(() => document.querySelectorAll(".session").length === 1);
  await hand.press("Enter");
  await page.locator("#name", { hasText: "Oslo in May" }).waitFor();
  hand.within();
  await page.getByLabel("Search", { exact: true }).fill("#vip");
  await page.waitForFunction(() => document.querySelectorAll(".session").length === 1);
  await page.getByLabel("Search", { exact: true }).fill("");
  await page.getByLabel("Decision").selectOption("HALT");
  await page.waitForFunction(() => [...document.querySelectorAll(".session")].length > 0 && [...document.querySelectorAll(".session")].every((e) => e.textContent.includes("halt")));
  await page.getByLabel("Decision").selectOption("");
  await page.getByLabel("Agent", { exact: true }).selectOption("research");
  await page.waitForFunction(() => document.querySelectorAll(".session").length === 1);
  await close();
});

test("find what was said, and go to the place", async () => {
  const { page, close } = await open(browser, "#/s/note");
  await page.locator(".runfoot").first().waitFor();
  const hand = new Hand(page);
  await hand.press("/");
  await page.keyboard.type("kestrels many"); // in a text, not in a title
  await page.locator(".session.text", { hasText: "How many kestrels?" }).waitFor();
  assert.equal(await page.locator(".session.text mark").first().textContent(), "many");
  await page.locator("#texts", { hasText: /^No title, 1 session by what was said$/ }).waitFor();
  await shot(page, "texts");
  await accessible(page, "texts that were found");
  await hand.press("Enter");
  await page.locator("#name", { hasText: "birds" }).waitFor();
  await page.locator(".inspect h2", { hasText: "input" }).waitFor();
  await page.locator(".talk .user", { hasText: "How many kestrels?" }).waitFor();
  hand.within();
  await close();
});

test("read a conversation, internals when they are asked for", async () => {
  const { page, close } = await open(browser, "#/s/trip");
  const hand = new Hand(page);
  await said(page).filter({ hasText: "Ada, it is all booked" }).waitFor();
  assert.equal(await page.locator('.talk [data-kind="thought"]').count(), 0);
  await hand.press("i");
  await page.locator('.talk [data-kind="thought"]').first().waitFor();
  hand.within();
  await shot(page, "conversation");
  await close();
});

test("see where a turn's time went, and open what is in it, with a proof", async () => {
  const { page, close } = await open(browser, "#/s/trip");
  const hand = new Hand(page);
  await page.locator(".runfoot").nth(1).waitFor();
  await hand.press("2");
  await page.locator('.turnline[data-turn="3"] .bar.stream').waitFor();
  const turn = page.locator('.turnline[data-turn="3"]');
  assert.equal(await turn.locator(".mark.byte").count(), 1);
  assert.ok((await turn.locator(".needs path").count()) >= 2);
  assert.ok((await turn.locator(".bar.failed").count()) >= 1);
  assert.equal(await turn.locator(".mark.commit").count(), 1);
  const left = async (what) => (await turn.locator(what).first().boundingBox()).x;
  assert.ok((await left(".mark.commit")) > (await left(".mark.byte")) && (await left(".mark.byte")) > (await left(".bar.first")), "marks stand at their times");
  await shot(page, "timeline");
  await hand.click(turn.locator(".bar.failed").first());
  await page.locator(".inspect h2", { hasText: "action.started" }).waitFor();
  await hand.click(page.getByRole("button", { name: "Check the proof" }));
  await page.locator(".proof.good", { hasText: "is signed by key" }).waitFor();
  hand.within();
  assert.match(await page.locator("[data-hash]").textContent(), /^[0-9a-f]{64}/);
  await close();
});

test("a record that was changed on the way has no proof", async () => {
  const { page, close } = await open(browser, "#/");
  await page.route("**/records?*", async (route) => {
    const res = await route.fetch();
    await route.fulfill({ response: res, body: (await res.text()).replaceAll("flight to Oslo", "flight to Nice") });
  });
  await page.goto(world.url + "/#/s/trip");
  await page.locator(".call").first().waitFor();
  await page.locator(".call .head").first().click();
  await page.getByRole("button", { name: "Records and hashes" }).first().click();
  await page.getByRole("button", { name: "Check the proof" }).click();
  await page.locator(".proof.bad", { hasText: "is not what was recorded" }).waitFor();
  await close();
});

test("see why it stopped: decision, code, place, in plain words", async () => {
  const { page, close } = await open(browser, "#/s/loop");
  const hand = new Hand(page);
  const stopped = page.locator(".stopped");
  await stopped.waitFor();
  assert.match(await stopped.textContent(), /A limit of the agent was used up.*HALT ERR_QUOTA.*turn/s);
  await hand.click(stopped.getByRole("button"));
  await page.locator(".inspect h2", { hasText: "turn.decided" }).waitFor();
  hand.within();
  await shot(page, "stopped");
  await close();
});

test("steer: send with Enter, cancel with a key", async () => {
  const { page, close } = await open(browser);
  await begin(page, "talker", "steered");
  await send(page, "hello");
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.locator("#state.running").waitFor();
  await page.keyboard.press("Escape");
  const hand = new Hand(page);
  await hand.press(".");
  await page.locator(".stopped").waitFor();
  hand.within();
  await close();
});

test("administer: make and revoke a token, verify a session, delete it", async () => {
  const { page } = await open(browser, "#/admin", { url: world.guarded, quiet: false });
  await page.getByLabel("Token").fill(world.admin);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.locator("#tokens tbody tr").first().waitFor();
  await page.getByLabel("submit", { exact: true }).check();
  await page.getByLabel("Note").fill("<b>for the desk</b>");
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = await page.locator("#secret").textContent();
  const me = (token) => fetch(world.guarded + "/v1/sessions", { headers: { Authorization: "Bearer " + token } });
  assert.equal((await me(secret)).status, 200);
  const row = page.locator("#tokens tr", { hasText: "<b>for the desk</b>" });
  await shot(page, "admin");
  const hand = new Hand(page);
  await hand.click(row.getByRole("button", { name: "Revoke" }));
  await hand.click(row.getByRole("button", { name: "Yes", exact: true }));
  await row.filter({ hasText: "revoked" }).waitFor();
  hand.within();
  assert.equal((await me(secret)).status, 401);
  await page.getByRole("button", { name: "Look again" }).click();
  await page.locator("#audit tr", { hasText: "revoke-token" }).first().waitFor();
  await page.locator("#audit tr", { hasText: "create-token" }).first().waitFor();
  await shot(page, "audit");
  await page.context().close();

  await spoken("plain", "whole", "hello", "and again");
  const one = await open(browser, "#/s/whole", { quiet: false });
  await one.page.locator(".runfoot").nth(1).waitFor();
  const again = new Hand(one.page);
  await again.press("3");
  await again.click(one.page.getByRole("button", { name: "Verify" }));
  await one.page.locator(".proof.good", { hasText: "records follow each other as they were recorded" }).waitFor();
  again.within();
  await one.page.getByRole("button", { name: "Delete", exact: true }).click();
  await one.page.getByRole("button", { name: "No", exact: true }).click();
  await one.page.getByRole("button", { name: "Delete", exact: true }).click();
  await one.page.getByRole("button", { name: "Yes", exact: true }).click();
  await one.page.waitForFunction(() => location.hash === "#/" && ![...document.querySelectorAll(".session")].some((e) => e.getAttribute("href") === "#/s/whole"));
  assert.equal((await fetch(world.url + "/v1/sessions/whole")).status, 404);
  await one.close();
});

test("hostile content in the audit log is text", async () => {
  const { page, close } = await open(browser, "", { url: world.guarded, quiet: false });
  await page.route("**/v1/audit?*", async (route) => {
    const res = await route.fetch();
    const body = await res.json();
    const hostile = (o) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, typeof v === "string" && !/time|ts|at/.test(k) ? world.hostile : v]));
    assert.ok(body.entries.length > 0);
    await route.fulfill({ response: res, json: { ...body, entries: body.entries.map(hostile) } });
  });
  await page.goto(world.guarded + "/#/admin");
  await page.getByLabel("Token").fill(world.admin);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.locator("#audit tbody tr", { hasText: "<img src=x onerror=" }).first().waitFor();
  await onlyText(page);
  await close();
});

test("a session of which a record was changed, dropped or moved does not verify", async () => {
  await spoken("plain", "forged", "hello");
  for (const [forge, want] of [
    [(rs) => rs.map((r) => (r.type === "input" ? { ...r, body: { ...r.body, text: "another" } } : r)), "is not what was recorded"],
    [(rs) => rs.filter((r) => r.type !== "input").map((r, i) => ({ ...r })), "the chain is broken"],
    [(rs) => rs.slice(1), "is not the beginning"],
    [(rs) => rs.map(({ sig, ...r }) => r), "none of them is signed"],
  ]) {
    const { page, close } = await open(browser, "#/", { quiet: false });
    await page.route("**/sessions/forged/records?*", async (route) => {
      const res = await route.fetch();
      const body = await res.json();
      await route.fulfill({ response: res, json: { ...body, records: forge(body.records) } });
    });
    await page.goto(world.url + "/#/s/forged/records");
    await page.locator(".record").first().waitFor();
    await page.getByRole("button", { name: "Verify" }).click();
    await page.locator(".proof.bad", { hasText: want }).waitFor();
    await close();
  }
});

test("an address leads to a place: a view, a turn, a record", async () => {
  const { page, close } = await open(browser, "#/s/trip/time?turn=3&record=1");
  await page.locator(".inspect h2", { hasText: "session.opened" }).waitFor();
  await page.locator('.turnline[data-turn="3"] .lanes').waitFor();
  await page.goBack().catch(() => {});
  await close();
});
