// What the tests of the console in a browser share: a page, and what a person does on it.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

export const world = JSON.parse(process.env.STILE_CONSOLE);
const from = createRequire(join(world.packages, "node_modules", "x"));
const { chromium } = from("playwright-core");
const axe = readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");
if (world.shots) mkdirSync(world.shots, { recursive: true });

export async function launch() {
  const args = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu"];
  return chromium.launch({ executablePath: world.browser, args, chromiumSandbox: process.getuid?.() !== 0 });
}

/** A page, and what went wrong on it: errors, violations of its policy, requests elsewhere. */
export async function open(browser, path = "", { url = world.url, quiet = true, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  const wrong = [];
  page.on("console", (m) => m.type() === "error" && wrong.push(m.text()));
  page.on("pageerror", (err) => wrong.push(String(err.stack)));
  page.on("dialog", (d) => wrong.push("dialog: " + d.message()));
  page.on("request", (r) => r.url().startsWith(url + "/") || r.url().startsWith("data:") || r.url().startsWith("blob:") || wrong.push("request: " + r.url()));
  await page.goto(url + "/" + path);
  await page.locator(".app").waitFor();
  const close = async () => {
    if (quiet) assert.deepEqual(wrong, []);
    await context.close();
  };
  return { page, wrong, close };
}

export const lever = (what) => fetch(world.lever + what);

export async function call(method, path, body, url = world.url) {
  const res = await fetch(url + "/v1" + path, { method, headers: { "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  assert.ok(res.ok, `${method} ${path}: ${res.status} ${res.ok ? "" : await res.text()}`);
  return res.status === 204 ? undefined : res.json();
}

/** A session that has said something; its run has ended. */
export async function spoken(agent, id, ...texts) {
  await call("POST", "/sessions", { agent, id });
  let run;
  for (const input of texts) run = await call("POST", `/sessions/${id}/runs?wait=60s`, { input });
  return run;
}

export async function begin(page, agent, id) {
  await page.getByRole("button", { name: "New" }).click();
  await page.locator("form.begin").getByLabel("Agent").selectOption(agent);
  await page.getByLabel("Id", { exact: true }).fill(id);
  await page.getByRole("button", { name: "Begin", exact: true }).click();
  await page.locator("#name", { hasText: id }).waitFor();
}

export async function send(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByLabel("Message", { exact: true }).press("Enter");
}

export const said = (page) => page.locator('.talk [data-kind="said"]');

/** No markup came of what was said. */
export async function onlyText(page) {
  assert.equal(await page.locator("#app img, #app script, #app iframe, #app b img, a[href^=javascript]").count(), 0);
  assert.doesNotMatch(await page.title(), /owned/);
}

/** What a reader of screens would stumble over. */
export async function accessible(page, what) {
  await page.evaluate(axe); // by the debugger: the policy of the page lets no script in
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  const broken = found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " — " + n.failureSummary.replace(/\s+/g, " ")).slice(0, 3).join("; ")}`);
  assert.deepEqual(broken, [], what);
}

export async function shot(page, name) {
  if (world.shots) await page.screenshot({ path: join(world.shots, name + ".png") });
}

/** A picture of the documentation, made anew where STILE_PICTURES names its folder. */
export async function picture(page, name) {
  if (world.pictures) await page.screenshot({ path: join(world.pictures, name + ".png") });
}

/** Counts what a person presses and clicks: a task is to take at most three. */
export class Hand {
  constructor(page) {
    this.page = page;
    this.n = 0;
  }

  async click(locator) {
    this.n++;
    await locator.click();
  }

  async press(key) {
    this.n++;
    await this.page.keyboard.press(key);
  }

  within(most = 3) {
    assert.ok(this.n <= most, `it took ${this.n} clicks and keys`);
    this.n = 0;
  }
}
