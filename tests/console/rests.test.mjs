// A journal at rest: all of it is shown, nothing in it can be changed.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, launch, lever, onlyText, open, shot, world } from "./world.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test("a journal at rest is shown, and nothing in it is changed", async () => {
  const { page, close } = await open(browser, "#/s/spoke", { url: world.resting });
  await page.locator("#rests").waitFor();
  await page.locator(".talk .said", { hasText: "Ahoy." }).waitFor();
  assert.equal(await page.locator(".session").count(), 2);
  for (const what of ["#new", "#say", "#cancel", ".edit", "text=Fork here", "#name button"]) assert.equal(await page.locator(what).count(), 0, what);
  await page.keyboard.press("n");
  assert.equal(await page.locator("form.begin").count(), 0);
  await shot(page, "rests");
  await accessible(page, "at rest");
  await page.keyboard.press("3");
  await page.getByRole("button", { name: "Verify" }).click();
  await page.locator(".proof.good").waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
  await page.keyboard.press("4");
  await page.locator(".message").first().waitFor();
  await page.goto(world.resting + "/#/inbox");
  await page.locator("article .approval").waitFor();
  assert.equal(await page.getByRole("button", { name: "Allow" }).count(), 0);
  await page.goto(world.resting + "/#/s/waits/context");
  await page.locator(".context").waitFor();
  assert.equal(await page.getByRole("heading", { name: "Feeds" }).count(), 0);
  await page.goto(world.resting + "/#/admin");
  await page.getByText("nothing in it is changed").waitFor();
  await onlyText(page);
  await close();
  for (const [method, path, body] of [["POST", "/sessions", { agent: "plain" }], ["POST", "/sessions/spoke/runs", { input: "x" }], ["PATCH", "/sessions/spoke", { title: "x" }], ["DELETE", "/sessions/spoke"]]) {
    const res = await fetch(world.resting + "/v1" + path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
    const said = await res.json();
    assert.deepEqual([res.status, said.code, said.reason], [403, "ERR_DENIED", "READ_ONLY"], `${method} ${path}`);
    assert.match(said.detail, /only shows its journal/);
  }
});

test("a journal that another process writes is seen as it grows", async () => {
  const { page, close } = await open(browser, "#/s/grows", { url: world.growing });
  await page.locator(".talk .user", { hasText: /^first$/ }).waitFor();
  for (const text of ["second", "third"]) {
    assert.equal((await lever("/grow?say=" + text)).status, 200);
    await page.locator(".talk .user", { hasText: text }).waitFor();
  }
  await page.waitForFunction(() => document.querySelectorAll(".talk .runfoot .done").length === 3);
  assert.equal((await lever("/grow?say=new-one")).status, 200);
  await page.locator('.session[href="#/s/new-one"]').waitFor(); // in the list
  await page.keyboard.press("3");
  await page.getByRole("button", { name: "Verify" }).click();
  await page.locator(".proof.good").waitFor();
  await close();
});
