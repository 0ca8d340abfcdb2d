// A console that is open beside a load: the list of sessions, and one of them as it lives.
import { launch, open } from "./world.mjs";

const browser = await launch();
const { page } = await open(browser, "#/s/watched", { quiet: false });
await page.locator(".talk .said").first().waitFor();
await page.locator(".session").nth(5).waitFor();
console.log("open");
process.stdin.resume();
process.stdin.on("end", () => browser.close());
