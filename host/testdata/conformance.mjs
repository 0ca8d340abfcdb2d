// The conformance package imports a function of Node 22 that no scenario of a server calls; older
// versions get one that fails.
import * as fs from "node:fs";
import { register } from "node:module";

const url = (text) => "data:text/javascript," + encodeURIComponent(text);
if (!fs.globSync) {
  const files = url(`export * from "node:fs"; export { default } from "node:fs";
    export const globSync = () => { throw new Error("Node 22 has globSync"); };`);
  register(url(`export const resolve = (name, context, next) =>
    name === "fs" && context.parentURL?.includes("/conformance/") ? { url: ${JSON.stringify(files)}, shortCircuit: true } : next(name, context);`));
}
