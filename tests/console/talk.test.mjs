// Sessions are begun, spoken to, cancelled and answered for.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { begin, call, lever, launch, onlyText, open, said, send, shot, spoken, world } from "./world.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test("a session is begun, and its text is seen while it grows", async () => {
  const { page, close } = await open(browser);
  await begin(page, "talker", "ada");
  await send(page, "hello <b>there</b>");
  await page.locator(".talk .user", { hasText: "hello <b>there</b>" }).waitFor();
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.locator("#state.running").waitFor();
  await lever("/go");
  await said(page).filter({ hasText: "one " + world.hostile }).waitFor();
  await page.locator(".runfoot", { hasText: "done" }).waitFor();
  await page.locator(".session[aria-current=page]", { hasText: "ada" }).waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "");
  await onlyText(page);
  await close();
});

test("of a long conversation the last runs are in the document, and older ones come as it is scrolled or asked for", async () => {
  const said = Array.from({ length: 45 }, (_, i) => `message ${i + 1}.`);
  await spoken("plain", "long", ...said);
  const { records } = await call("GET", "/sessions/long/records?limit=1000&kind=input");
  const { page, close } = await open(browser, "#/s/long");
  const runs = page.locator(".talk .run");
  await page.locator('.run[data-run="45"] .runfoot').waitFor();
  assert.ok((await runs.count()) <= 25, `${await runs.count()} runs are in the document`);
  assert.equal(await page.locator('.run[data-run="1"]').count(), 0);
  await page.waitForFunction(() => {
    document.querySelector(".talk").scrollTop = 0;
    return document.querySelector('.run[data-run="1"]');
  });
  await page.locator(".run", { hasText: "message 1." }).first().waitFor();
  await page.goto(world.url + "/#/s/ada");
  await page.goto(`${world.url}/#/s/long?record=${records[2].seq}`); // an address in it
  await page.locator('.run[data-run="3"] .user', { hasText: "message 3." }).waitFor();
  await page.waitForFunction(() => {
    const [run, box] = [document.querySelector('.run[data-run="3"]'), document.querySelector(".talk")].map((e) => e.getBoundingClientRect());
    return run.bottom > box.top && run.top < box.bottom;
  });
  await close();
});

test("a run that hangs is cancelled, and it says why it stopped", async () => {
  const { page, close } = await open(browser);
  await begin(page, "talker", "hang");
  await send(page, "wait");
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator(".stopped", { hasText: "It was cancelled." }).waitFor();
  await page.locator(".stopped", { hasText: "HALT ERR_CANCELLED" }).waitFor();
  await page.locator("#state.idle").waitFor();
  await close();
});

test("approvals are shown as they are, and answered", async () => {
  const { page, close } = await open(browser);
  await begin(page, "clerk", "desk");
  for (const [button, end] of [["Allow", "It is settled."], ["Deny", "not now"]]) {
    await send(page, "pay " + button);
    const card = page.locator(".approval");
    await card.waitFor();
    const args = await card.locator("pre").textContent();
    assert.ok(args.includes("<img src=x onerror=") && args.includes("\\u{202e}"), args);
    assert.match(await card.textContent(), /[0-9a-f]{64}/);
    await onlyText(page);
    await card.getByLabel("Reason").fill("not now");
    // What is half written outlives news of the session.
    await call("PATCH", "/sessions/desk", { title: "The desk, " + button });
    await page.locator("#name", { hasText: "The desk, " + button }).waitFor();
    assert.equal(await card.getByLabel("Reason").inputValue(), "not now");
    await shot(page, "approval-" + button);
    await card.getByRole("button", { name: button }).click();
    await card.waitFor({ state: "detached" });
    await page.locator(".talk", { hasText: end }).waitFor();
    await page.locator("#state.idle").waitFor();
  }
  await close();
});

test("a hostile address is a name that no session has", async () => {
  const { page } = await open(browser, "#" + encodeURIComponent("<img src=x onerror=alert(1)>"));
  await page.locator(".trouble", { hasText: "ERR_INVALID" }).waitFor();
  assert.equal(await page.locator("#name").textContent(), "<img src=x onerror=alert(1)>");
  await onlyText(page);
  await page.context().close();
});

test("the policy holds: no markup from strings, no inline style, no request elsewhere, no frame", async () => {
  const { page } = await open(browser, "", { quiet: false });
  assert.match(await page.evaluate(() => { try { document.body.innerHTML = "<b>x</b>"; return "made"; } catch (err) { return String(err); } }), /TrustedHTML/);
  const seen = await page.evaluate(async () => {
    const violated = new Promise((done) => {
      const seen = [];
      document.addEventListener("securitypolicyviolation", (e) => seen.push(e.effectiveDirective) === 2 && done(seen));
    });
    await fetch("http://127.0.0.1:9/").catch(() => {});
    const inline = document.createElement("b");
    inline.setAttribute("style", "color: red");
    return [await violated, inline.style.color];
  });
  assert.deepEqual(seen, [["connect-src", "style-src-attr"], ""]);
  await page.context().close();
  const other = await browser.newPage();
  await other.setContent(`<iframe src="${world.url}/"></iframe>`);
  const frame = other.frames()[1];
  await frame?.waitForLoadState().catch(() => {});
  assert.equal(await frame.locator(".app").count(), 0);
  await other.close();
});

test("a host that wants a token asks for it, again for another one, and politely when it is revoked", async () => {
  const { page } = await open(browser, "", { url: world.guarded, quiet: false });
  for (const one of ["stile_wrong", world.token]) {
    await page.getByLabel("Token").fill(one);
    await page.getByRole("button", { name: "Go on" }).click();
    if (one !== world.token) await page.getByText("The token is not good any more").waitFor();
  }
  await page.locator("#access").waitFor({ state: "detached" });
  await begin(page, "plain", "ann-1");
  await send(page, "hello");
  await said(page).filter({ hasText: "Ahoy." }).waitFor();
  const gone = await fetch(`${world.guarded}/v1/tokens/${world.tokenID}`, { method: "DELETE", headers: { Authorization: "Bearer " + world.token } });
  assert.ok(gone.ok);
  await page.getByText("The token is not good any more").waitFor();
  await page.context().close();
});

test("a session is watched through a restart of its host", async () => {
  await spoken("plain", "watched", "hello");
  const { page, close } = await open(browser, "#/s/watched", { quiet: false });
  await said(page).filter({ hasText: "Ahoy, there." }).waitFor();
  await lever("/stop");
  await page.getByText("The host does not answer").waitFor();
  await lever("/start");
  await page.getByText("The host does not answer").waitFor({ state: "detached" });
  await call("POST", "/sessions/watched/runs?wait=60s", { input: "and again" });
  await page.locator(".talk .user", { hasText: "and again" }).waitFor();
  await page.locator(".runfoot").nth(1).waitFor();
  assert.equal(await page.locator(".talk .user").count(), 2);
  assert.equal(await said(page).count(), 2);
  await close();
});

test("a thousand pieces, five hundred a second, and the page is used meanwhile", async () => {
  const { page, close } = await open(browser);
  await begin(page, "flood", "flood");
  await send(page, "pour");
  await said(page).filter({ hasText: "piece 20 " }).waitFor();
  await page.getByRole("link", { name: "Records" }).click();
  await page.locator(".record", { hasText: "model.request" }).waitFor();
  await page.getByRole("link", { name: "Conversation" }).click();
  await said(page).filter({ hasText: "piece 999 " }).waitFor();
  const text = await said(page).textContent();
  assert.equal(text.trim(), Array.from({ length: 1000 }, (_, i) => `piece ${i}`).join(" "));
  await close();
});
