// Pictures and files of a conversation.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { accessible, begin, call, launch, open, said, shot } from "./world.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// A picture of 2 by 2 points.
const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVQI12P8z8DAwMDAxMDAwMDAAAANHQEDasKb6QAAAABJRU5ErkJggg==", "base64");
const hostile = `%PDF-1.7<script>document.title='owned'</script>`;

test("pictures and files go with a message, and are shown as what they are", async () => {
  const { page, close } = await open(browser);
  await begin(page, "seer", "album");
  await page.getByLabel("Attach", { exact: true }).setInputFiles([
    { name: "dot.png", mimeType: "image/png", buffer: png },
    { name: "<b>a.pdf", mimeType: "application/pdf", buffer: Buffer.from(hostile) },
    { name: "left.txt", mimeType: "text/plain", buffer: Buffer.from("not this one") },
  ]);
  await page.getByRole("button", { name: "Leave out left.txt" }).click();
  assert.equal(await page.locator(".chosen li").count(), 2);
  await page.getByLabel("Message", { exact: true }).fill("look at <b>these</b>");
  await accessible(page, "what is attached");
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await said(page).filter({ hasText: "I see." }).waitFor();
  await page.locator(".chosen").waitFor({ state: "detached" });
  const { records } = await call("GET", "/sessions/album/records?kind=input");
  const parts = records[0].body.parts;
  assert.deepEqual(parts.map((p) => [p.type, p.name, p.size]), [["image/png", "dot.png", png.length], ["application/pdf", "_b_a.pdf", hostile.length]]);

  // The picture is one, by its bytes; the file is a name with its type, size and digest.
  const picture = page.locator(".part img");
  await picture.waitFor();
  await page.waitForFunction(() => document.querySelector(".part img")?.naturalWidth === 2);
  assert.equal(await page.locator(".part img").count(), 1);
  assert.match(await picture.getAttribute("src"), /^data:image\/png;base64,/);
  const file = page.locator(".part", { hasText: "_b_a.pdf" });
  assert.match(await file.textContent(), new RegExp("application/pdf · " + hostile.length + " B · " + parts[1].digest.slice(0, 12)));
  const coming = page.waitForEvent("download");
  await file.getByRole("button").click();
  const got = await coming;
  assert.equal(got.suggestedFilename(), "_b_a.pdf");
  const kept = [];
  for await (const piece of await got.createReadStream()) kept.push(piece);
  assert.equal(Buffer.concat(kept).toString(), hostile);
  assert.equal(await page.locator("#app script, #app iframe, #app object, #app embed, #app .user b").count(), 0);
  assert.doesNotMatch(await page.title(), /owned/);
  await accessible(page, "a conversation with pictures");
  await shot(page, "parts");

  // What no model may have is refused with words, and what was written and chosen stays.
  await page.getByLabel("Attach", { exact: true }).setInputFiles([{ name: "x.svg", mimeType: "image/svg+xml", buffer: Buffer.from([0, 1, 2, 255]) }]);
  await page.getByLabel("Message", { exact: true }).fill("and this?");
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await page.locator(".trouble", { hasText: "ERR_INVALID" }).waitFor();
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "and this?");
  assert.equal(await page.locator(".chosen li").count(), 1);
  await page.context().close();
});
