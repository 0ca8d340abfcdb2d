// Times of actions of the console, from the event to the frame that shows what came of it.
import { launch, open, world } from "./world.mjs";

const rounds = 5;
const patience = 20000; // milliseconds, for an action that never ends
const browser = await launch();
const { page } = await open(browser, "", { quiet: false });
await page.locator(".session").first().waitFor();

/** Does something in the page, by the debugger: its policy allows no text to be code. Waits for the frame in which it is true that. */
const once = (act, that) =>
  page.evaluate(`new Promise((told) => {
    const begin = performance.now();
    { ${act} }
    const look = () => ((${that}) ? requestAnimationFrame(() => told(performance.now() - begin)) : requestAnimationFrame(look));
    requestAnimationFrame(look);
    setTimeout(told, ${patience}, NaN);
  })`);

async function measure(name, act, that, back, rest) {
  const times = [];
  for (let i = 0; i < rounds; i++) {
    times.push(await once(act, that));
    if (back && Number.isNaN(await once(back, rest))) throw new Error(name + ": there is no way back");
  }
  times.sort((a, b) => a - b);
  console.log(`${name.padEnd(52)} median ${times[rounds >> 1].toFixed(0).padStart(5)} ms   least ${times[0].toFixed(0).padStart(5)} ms`);
}

const rows = `[...document.querySelectorAll(".session b")].map((e) => e.textContent)`;
const set = (selector, value, event) => `const e = document.querySelector(${JSON.stringify(selector)}); e.value = ${JSON.stringify(value)}; e.dispatchEvent(new Event("${event}", { bubbles: true }));`;
const all = `${rows}.some((t) => t.startsWith("Order 9"))`;
await measure("search a title in 100,000 sessions", set("#search", "needle", "input"), `${rows}.length > 3 && ${rows}.every((t) => t.includes("needle"))`, set("#search", "", "input"), all);
await measure("filter by agent", set("select[aria-label=Agent]", "agent7", "change"), `[...document.querySelectorAll(".session .agent")].every((e) => e.textContent === "agent7")`, set("select[aria-label=Agent]", "", "change"), `new Set([...document.querySelectorAll(".session .agent")].map((e) => e.textContent)).size > 2`);
await measure("filter by decision", set("select[aria-label=Decision]", "HALT", "change"), `document.querySelectorAll(".session .state.halt").length > 1 && [...document.querySelectorAll(".session .state")].every((e) => e.classList.contains("halt"))`, set("select[aria-label=Decision]", "", "change"), `document.querySelectorAll(".session .state:not(.halt)").length > 5`);
await measure("scroll the list by a page of 100 sessions", `const v = document.querySelector(".list .virtual"); globalThis.was = v.scrollHeight; v.scrollTop = v.scrollHeight;`, `document.querySelector(".list .virtual").scrollHeight > globalThis.was`);
const big = "s100000";
await measure("open a session of 10,000 records", `location.hash = "#/s/${big}"`, `document.querySelectorAll(".talk .said").length > 5`, `location.hash = "#/"`, `document.querySelector("#hint")`);
await page.goto(page.url().split("#")[0] + `#/s/${big}/records`);
await page.locator(".record").first().waitFor();
for (let i = 0; i < 200 && (await page.getByRole("button", { name: "Earlier" }).count()); i++) await page.getByRole("button", { name: "Earlier" }).click().catch(() => {});
console.log(await page.locator(".records .tools .num").textContent());
await measure("scroll its records to another place", `const v = document.querySelector(".records .virtual"); globalThis.was = document.querySelector(".record .num").textContent; v.scrollTop = Math.random() * v.scrollHeight;`, `document.querySelector(".record .num").textContent !== globalThis.was`);
await measure("search its records", set('input[aria-label="Search records"]', "run.end", "input"), `[...document.querySelectorAll(".record b")].every((e) => e.textContent === "run.end")`, set('input[aria-label="Search records"]', "", "input"), `[...document.querySelectorAll(".record b")].some((e) => e.textContent === "input")`);
await measure("its conversation", `document.querySelector(".tabs a").click()`, `document.querySelectorAll(".talk .said").length > 5`, `document.querySelectorAll(".tabs a")[2].click()`, `document.querySelector(".record")`);
await page.goto(world.live);
await page.locator(".session").first().waitFor();
const began = performance.now();
for (let behind = true; behind; ) behind = (await (await fetch(world.live + "/v1/search?q=hills")).json()).behind;
console.log(`all texts put into the index in ${((performance.now() - began) / 1000).toFixed(1)} s`);
await measure("search a text in 100,000 sessions", set("#search", "rains hills", "input"), `document.querySelector(".session.text mark")`, set("#search", "", "input"), `!document.querySelector(".session.text") && ${all}`);
await browser.close();
