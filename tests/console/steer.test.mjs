// The inbox, another try in a copy, two runs side by side.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { begin, call, Hand, launch, onlyText, open, said, send, shot, spoken, world } from "./world.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test("the inbox has what waits in all sessions, and answers it", async () => {
  for (const id of ["waits-1", "waits-2"]) {
    await call("POST", "/sessions", { agent: "clerk", id });
    await call("POST", `/sessions/${id}/runs`, { input: "pay" });
  }
  const { page, close } = await open(browser, "#/s/waits-1");
  await page.locator(".bar .count", { hasText: "2" }).waitFor();
  const hand = new Hand(page);
  await hand.press("a");
  const card = page.locator("article", { hasText: "waits-2" });
  assert.match(await card.locator("pre").textContent(), /\\u\{202e\}/);
  assert.match(await card.textContent(), /[0-9a-f]{64}/);
  await onlyText(page);
  await shot(page, "inbox");
  await card.getByLabel("Reason").fill("not this one");
  await page.locator("article", { hasText: "waits-1" }).getByRole("button", { name: "Allow" }).click();
  await page.locator("article", { hasText: "waits-1" }).waitFor({ state: "detached" });
  assert.equal(await card.getByLabel("Reason").inputValue(), "not this one", "what is half written stays");
  await hand.click(card.getByRole("button", { name: "Deny" }));
  await page.getByText("Nothing waits for an answer.").waitFor();
  hand.within();
  await page.locator(".bar .count").waitFor({ state: "detached" });
  for (const [id, want] of [["waits-1", "approve"], ["waits-2", "deny"]]) {
    const { records } = await call("GET", `/sessions/${id}/records?kind=action.approval`);
    assert.equal(records.at(-1).body.state, want);
  }
  await close();
});

test("a message is said otherwise in a copy, and the two runs are compared", async () => {
  await spoken("booking", "first", "Book Oslo for Ada on 3 May.", "And the same for Ben.");
  const { page, close } = await open(browser, "#/s/first");
  await page.locator(".runfoot").nth(1).waitFor();
  const hand = new Hand(page);
  await hand.click(page.locator('.run[data-run="2"]').getByRole("button", { name: "Edit and run again" }));
  const box = page.getByLabel("Message, edited");
  assert.equal(await box.inputValue(), "And the same for Ben.");
  await box.press("Escape");
  await box.waitFor({ state: "detached" });
  await page.locator('.run[data-run="2"]').getByRole("button", { name: "Edit and run again" }).click();
  await box.fill("And the same for Eve.");
  await hand.press("Enter");
  await page.locator("#origin", { hasText: "continues first" }).waitFor();
  await page.locator(".talk .user", { hasText: "And the same for Eve." }).waitFor();
  await page.locator(".runfoot").last().waitFor();
  await hand.click(page.locator("#origin").getByRole("link", { name: "compare" }));
  await page.locator(".pair.differs", { hasText: "for Eve." }).waitFor();
  hand.within();
  assert.match(await page.locator("#differ").textContent(), /^\d+ of \d+ rows differ$/);
  assert.match(await page.locator(".pair.differs").first().textContent(), /for Ben\..*for Eve\./s);
  assert.match(await page.locator("table.sums").textContent(), /Decision.*Time.*Turns.*Tokens/s);
  await shot(page, "compare");
  await close();
});

test("two runs of a session are compared, and a session that is not there is said", async () => {
  await spoken("plain", "twice", "hello", "hello");
  const { page, close } = await open(browser, "#/s/twice/compare", { quiet: false });
  await page.locator("#differ", { hasText: "no difference" }).waitFor();
  await page.getByLabel("Run of the other session").selectOption("2");
  await page.getByText("Name another session, or pick two runs.").waitFor();
  await page.getByLabel("Session to compare with").fill("not-there");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.locator(".trouble", { hasText: "ERR_NOT_FOUND" }).waitFor();
  await close();
});

test("a copy ends where it was made, and goes on from there", async () => {
  await spoken("plain", "root", "hello", "and again");
  const { page, close } = await open(browser, "#/s/root");
  await page.locator(".runfoot").nth(1).waitFor();
  const hand = new Hand(page);
  await hand.click(page.locator('.run[data-run="1"]').getByRole("button", { name: "Fork here" }));
  await page.locator("#origin", { hasText: "continues root" }).waitFor();
  hand.within();
  await page.locator("#name", { hasText: /^Fork of root at turn 1$/ }).waitFor();
  await send(page, "elsewhere");
  await page.locator(".talk .user", { hasText: "elsewhere" }).waitFor();
  await page.locator(".runfoot").last().waitFor();
  const { runs } = await call("GET", "/sessions/root/runs");
  assert.equal(runs.length, 2, "the first session is as it was");
  await close();
});

test("what an answer of the host forbids is told, and nothing is lost", async () => {
  const { page, close } = await open(browser, "", { quiet: false });
  await begin(page, "plain", "kept");
  await send(page, "hello");
  await page.locator(".runfoot").waitFor();
  await page.route("**/fork", (route) => route.fulfill({ status: 429, contentType: "application/problem+json", body: JSON.stringify({ code: "ERR_QUOTA", detail: "no more sessions" }) }));
  await page.getByRole("button", { name: "Edit and run again" }).click();
  await page.getByLabel("Message, edited").fill("half written");
  await page.getByRole("button", { name: "Run in a copy" }).click();
  await page.locator(".trouble", { hasText: "ERR_QUOTA" }).waitFor();
  assert.equal(await page.getByLabel("Message, edited").inputValue(), "half written");
  assert.equal(await said(page).count(), 1);
  await close();
});
