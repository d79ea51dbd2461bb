// What the steps stand on: a browser, what it complains of, and requests beside it.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What the test that runs this says: addresses, tokens, links. */
export const given = JSON.parse(process.env.EDICT_CONSOLE);

const faults = [];
export const measured = {};

/** Notes a fault unless something holds. */
export function want(holds, what) {
  if (!holds) faults.push(what);
}

/** Notes a fault unless two values are the same. */
export function same(got, wanted, what) {
  want(JSON.stringify(got) === JSON.stringify(wanted), `${what}: shown ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
}

export const browser = await chromium.launch({
  executablePath: given.browser,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** A page whose complaints are faults: errors, refused content, dialogues. */
export async function newPage(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.mayFail = false; // whether requests that fail are to be expected
  page.on("console", (m) => {
    if (m.type() === "error" && !(page.mayFail && /Failed to load resource|ERR_/.test(m.text()))) faults.push(`${name}: the browser says: ${m.text()}`);
  });
  page.on("pageerror", (e) => faults.push(`${name}: ${e.stack}`));
  page.on("dialog", (d) => {
    faults.push(`${name}: a dialogue: ${d.message()}`);
    void d.dismiss();
  });
  page.on("request", (r) => want([given.base, options.also].some((at) => at && r.url().startsWith(at)), `${name}: it asks ${r.url()}`));
  await context.addInitScript(() => {
    window.shifts = 0;
    window.refusedContent = [];
    addEventListener("securitypolicyviolation", (e) => window.refusedContent.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifts += e.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
  return page;
}

/** Opens a view and waits until something is there. */
export async function open(page, view, selector) {
  await page.goto(given.base + "/ui/" + view);
  await there(page, selector, view);
}

/** Waits for something to be seen. */
export async function there(page, selector, what = "") {
  try {
    await page.waitForSelector(selector, { timeout: 60_000 });
  } catch {
    throw new Error(`${what}: ${selector} does not come. The page says: ${(await page.innerText("body")).slice(0, 600)}`);
  }
}

/** What nothing may complain of on a view that is open; judged: axe looks at it too, which takes a second and more. */
export async function clean(page, name, judged = true) {
  const refused = await page.evaluate(() => window.refusedContent);
  measured.refusedContent = (measured.refusedContent ?? 0) + refused.length;
  want(refused.length === 0, `${name}: content was refused: ${refused.join("; ")}`);
  const shifts = await page.evaluate(() => window.shifts);
  if (shifts > (measured.worstShift?.[0] ?? 0)) measured.worstShift = [Number(shifts.toFixed(3)), name];
  want(shifts < 0.1, `${name}: what is shown moves by ${shifts}`);
  if (!judged) return;
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  measured.axe = (measured.axe ?? 0) + violations.length;
  for (const v of violations) faults.push(`${name}: axe ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")}`);
}

/** One request beside the browser, as who has the token. */
export async function ask(path, { token = given.token, method = "GET", body } = {}) {
  const res = await fetch(given.base + path, {
    method, headers: { Authorization: `Bearer ${token}`, ...(body !== undefined && { "Content-Type": "application/json" }) }, body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await res.text();
  if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

export const project = "/v1/projects/00000000-0000-4000-8000-000000000000";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the test do something with the plane, and waits until it is done. */
export async function please(what) {
  console.log(`please ${what}`);
  return (await lines.next()).value;
}

/** Ends with what was found. */
export async function finish() {
  await browser.close();
  console.log("measured " + JSON.stringify(measured));
  for (const f of faults) console.log("fault " + f.replaceAll("\n", " "));
  process.exit(faults.length > 0 ? 1 : 0);
}
