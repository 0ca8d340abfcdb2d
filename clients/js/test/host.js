// A real host for the tests: stile serve on loopback, with scripted agents.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** What the talker says, piece by piece. */
export const pieces = Array.from({ length: 60 }, (_, i) => `pïece ${i} 🦀\n`);

const any = { re2: "(?s).*" };
const chunks = (texts, every) => texts.map((text, i) => ({ at_ms: i * every, text }));
const agents = {
  talker: ["plain", "", [{ match: any, chunks: chunks(pieces, 4) }]],
  slow: ["plain", "", [{ match: any, chunks: chunks(["one ", "two ", "three"], 60000) }]],
  // Its first answer does not fit, its second one does.
  biller: ["plain", "output: {schema: {type: object, required: [total], properties: {total: {type: number}}}}\n", [{ match: { re2: "(?s)/total.*" }, chunks: chunks(['{"total":', ' 2.5}'], 1) }, { match: any, chunks: chunks(['{"total": "sec', 'ret"}'], 1) }]],
  zoned: ["kitsu", "", [{ match: any, chunks: chunks(["It is late."], 1) }]],
  clerk: ["kitsu", "approval: {tools: {search: confirm}, wait: 1h}\n", [{ chunks: chunks(['Shall I look?\n<action:search query="trains">\n'], 1) }, { chunks: chunks(["There are trains."], 1) }]],
};

/** Starts a host; its address, and how to stop and start it again with the same journal. */
export async function startHost(t) {
  const dir = mkdtempSync(join(tmpdir(), "stile-client-"));
  for (const [name, [dialect, rest, script]] of Object.entries(agents)) {
    writeFileSync(join(dir, name + ".yaml"), `name: ${name}\ndialect: ${dialect}\nmodel: {script: ${name}.jsonl}\n${rest}`);
    writeFileSync(join(dir, name + ".jsonl"), script.map((line) => JSON.stringify(line) + "\n").join(""));
  }
  let child;
  const host = {
    async start(listen = "127.0.0.1:0") {
      const args = ["serve", ...Object.keys(agents).map((name) => join(dir, name + ".yaml")), "--listen", listen, "--dir", join(dir, "data"), "--grace", "1s"];
      child = spawn(process.env.STILE_BIN, args, { stdio: ["ignore", "pipe", "inherit"] });
      for await (const line of createInterface({ input: child.stdout })) {
        const m = /http:\/\/[\d.:]+/.exec(line);
        if (m) {
          host.url = m[0];
          return;
        }
      }
      throw new Error("the host did not start");
    },
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      await once(child, "exit");
    },
  };
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) await host.stop("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  });
  await host.start();
  return host;
}

/** Numbers from a seed (mulberry32), in [0, n). */
export function random(seed) {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let x = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return Math.floor((((x ^ (x >>> 14)) >>> 0) / 2 ** 32) * n);
  };
}

/** A proxy that cuts each connection after cut() bytes of the answers. */
export async function startProxy(t, target, cut) {
  const open = new Set();
  const proxy = { cuts: 0 };
  const server = net.createServer((near) => {
    const far = net.connect(target.port, target.hostname);
    open.add(near).add(far);
    let left = cut();
    const end = () => {
      near.destroy();
      far.destroy();
      open.delete(near);
      open.delete(far);
    };
    near.on("error", end).on("close", end).on("data", (b) => far.write(b));
    far.on("error", end).on("close", () => near.end());
    far.on("data", (b) => {
      near.write(b.subarray(0, Math.min(left, b.length)));
      left -= b.length;
      if (left > 0) return;
      proxy.cuts++;
      near.end(() => near.destroy());
      far.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const s of open) s.destroy();
    server.close();
  });
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  return proxy;
}
