// The page in a real browser, against a host that page_test.go serves.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createRequire } from "node:module";
import { join } from "node:path";

const { STILE_URL: url, STILE_GO: goOn, STILE_GUARDED: guarded, STILE_TOKEN: token, STILE_BROWSER: executablePath, STILE_TEST_NODE_PACKAGES: packages, STILE_SCREENSHOT: shot } = process.env;
const { chromium } = createRequire(join(packages, "node_modules", "x"))("playwright-core");
const hostile = process.env.STILE_HOSTILE;

let browser;
before(async () => {
  const args = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu"];
  browser = await chromium.launch({ executablePath, args, chromiumSandbox: process.getuid?.() !== 0 });
});
after(() => browser.close());

/** A page, and what went wrong on it: errors, violations of its policy, requests elsewhere. */
async function open(path = "") {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  const wrong = [];
  page.on("console", (m) => m.type() === "error" && wrong.push(m.text()));
  page.on("pageerror", (err) => wrong.push(String(err)));
  page.on("dialog", (d) => wrong.push("dialog: " + d.message()));
  page.on("request", (r) => r.url().startsWith(url + "/") || r.url().startsWith("data:") || wrong.push("request: " + r.url()));
  await page.goto(url + "/" + path);
  await page.locator("option").first().waitFor({ state: "attached" });
  return { page, wrong };
}

const said = (page) => page.locator("#log li", { has: page.locator("span.kind", { hasText: /^respond$/ }) }).locator("span:not(.kind)");

async function begin(page, agent, id) {
  await page.getByLabel("Agent").selectOption(agent);
  await page.getByLabel("Id", { exact: true }).fill(id);
  await page.getByRole("button", { name: "Begin a session" }).click();
  await page.locator("#name", { hasText: id }).waitFor();
}

async function send(page, text) {
  await page.getByLabel("Message").fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

test("a session is begun, and its text is seen while it grows", async () => {
  const { page, wrong } = await open();
  await begin(page, "talker", "ada");
  await send(page, "hello <b>there</b>");
  await page.locator("#log .user", { hasText: "hello <b>there</b>" }).waitFor();
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.locator("#state.running").waitFor();
  await fetch(goOn);
  await said(page).filter({ hasText: "one " + hostile }).waitFor();
  await page.locator("#log", { hasText: "DONE" }).waitFor();
  await page.locator("#sessions button[aria-current=true]", { hasText: "ada" }).waitFor();
  // Text of the model stays text.
  assert.equal(await page.locator("#log img, #log script, #log a, #log iframe, #log b").count(), 0);
  assert.equal(await page.title(), "stile");
  if (shot) await page.screenshot({ path: shot + "-log.png" });
  assert.deepEqual(wrong, []);
  await page.close();
});

test("a run that hangs is cancelled", async () => {
  const { page, wrong } = await open();
  await begin(page, "talker", "hang");
  await send(page, "wait");
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.locator("#log .halt", { hasText: "ERR_CANCELLED" }).waitFor();
  assert.deepEqual(wrong, []);
  await page.close();
});

test("approvals are shown as they are, and answered", async () => {
  const { page, wrong } = await open();
  await begin(page, "clerk", "desk");
  for (const [button, end] of [["Allow", "paid"], ["Deny", "failed"]]) {
    let asked = 0, filled;
    const gate = new Promise((r) => (filled = r));
    await page.route("**/approvals", async (route) => {
      if (asked++ > 0 && route.request().method() === "GET") await gate;
      await route.continue();
    });
    await send(page, "trains?");
    const card = page.locator(".approval");
    await card.waitFor();
    const args = await card.locator("pre").textContent();
    assert.ok(args.includes("<img src=x onerror=") && args.includes("\\u{202e}"), args);
    assert.equal(await card.locator("img").count(), 0);
    if (shot) await page.screenshot({ path: shot + "-approval.png" });
    await card.getByLabel("Reason").fill("not now");
    // Two events ask for the list; what is half written outlives the second answer.
    const again = page.waitForResponse("**/approvals");
    filled();
    await again;
    await page.evaluate(() => new Promise((r) => setTimeout(r, 50)));
    assert.equal(await card.getByLabel("Reason").inputValue(), "not now");
    await card.getByRole("button", { name: button }).click();
    await card.waitFor({ state: "detached" });
    await page.unroute("**/approvals");
    await page.locator("#log", { hasText: end }).waitFor();
    await page.locator("#state.idle").waitFor();
  }
  await page.locator("#log", { hasText: "not now" }).waitFor();
  assert.deepEqual(wrong, []);
  await page.close();
});

test("a hostile address is a name that no session has", async () => {
  const { page } = await open("#" + encodeURIComponent("<img src=x onerror=alert(1)>"));
  await page.locator("#trouble", { hasText: "ERR_INVALID" }).waitFor();
  assert.equal(await page.locator("#name").textContent(), "<img src=x onerror=alert(1)>");
  assert.equal(await page.locator("img").count(), 0);
  await page.close();
});

test("the policy holds: no markup from strings, no inline script, no request elsewhere, no frame", async () => {
  const { page } = await open();
  assert.match(await page.evaluate(() => { try { document.body.innerHTML = "<b>x</b>"; return "made"; } catch (err) { return String(err); } }), /TrustedHTML/);
  assert.match(await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "sent", (err) => String(err))), /TypeError/);
  const violations = await page.evaluate(async () => {
    const seen = [];
    document.addEventListener("securitypolicyviolation", (e) => seen.push(e.effectiveDirective));
    await fetch("http://127.0.0.1:9/").catch(() => {});
    const inline = document.createElement("b");
    inline.setAttribute("style", "color: red");
    await new Promise((r) => setTimeout(r, 50));
    return [seen, inline.style.color];
  });
  assert.ok(violations[0].includes("connect-src"), JSON.stringify(violations));
  await page.close();
  const other = await browser.newPage();
  await other.setContent(`<iframe src="${url}/"></iframe>`);
  const frame = other.frames()[1];
  await frame?.waitForLoadState().catch(() => {});
  assert.equal(await frame.locator("#begin").count(), 0);
  await other.close();
});

test("a host that wants a token asks for it, and again for another one", async () => {
  const page = await browser.newPage();
  await page.goto(guarded + "/");
  for (const one of ["stile_wrong", token]) {
    await page.getByLabel("This host wants a token").fill(one);
    await page.getByRole("button", { name: "Go on" }).click();
  }
  await page.locator("#access").waitFor({ state: "hidden" });
  await begin(page, "talker", "ann-1");
  await send(page, "hello");
  await said(page).filter({ hasText: /^one $/ }).waitFor();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.locator("#log .halt").waitFor();
  await page.close();
});
