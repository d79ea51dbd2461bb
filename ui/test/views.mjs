// Each view, as an administrator sees it, held against the API.
import { ask, clean, given, measured, open, project, same, there, want } from "./browser.mjs";

const digits = (text) => Number(text.replace(/\D/g, ""));

async function fleet(page) {
  const counts = await ask("/v1/nodes:summary?by=env");
  // The keys of labels come last: what stands above the nodes that are behind must not push them down then.
  const keys = /\/nodes\?limit=100$/;
  let come;
  const wanted = new Promise((held) => void page.route(keys, (route) => (held(), new Promise((go) => (come = go)).then(() => route.continue()))));
  await open(page, "fleet?by=env", "section.counts .figure b");
  await wanted;
  want((await page.$$("section.part")).length === 0, "the fleet: a part is shown before those above it are known");
  come();
  await there(page, "tbody tr");
  await page.unroute(keys);
  const figure = await page.innerText("section.counts .figure");
  same(figure.match(/[\d,]+/g).map(digits), [counts.applied, counts.nodes], "the fleet's nodes");
  const rows = await page.$$eval("table >> nth=0 >> tbody tr", (all) => all.map((r) => [r.cells[0].innerText, ...[2, 3, 4, 5, 6].map((i) => Number(r.cells[i].innerText.replace(/\D/g, "")))]));
  same(rows, counts.groups.map((g) => [g.value ?? "without", g.nodes, g.applied, g.lagging, g.refused, g.silent]), "nodes by env");
}

async function policies(page) {
  const items = [];
  for (let cursor = ""; cursor !== null; ) {
    const page = await ask(`${project}/policies?limit=200&cursor=${cursor}`);
    items.push(...page.items);
    cursor = page.next_cursor ?? null;
  }
  await open(page, "policies", "tbody tr");
  same(await cells(page), items.map((p) => p.slug).sort((a, b) => a.localeCompare(b)), "policies");
}

// How this and earlier changes arrived: a row and a curve each, the last first, and each curve ends where all that are known had it.
async function arrivals(page, all) {
  measured.arrivals = Math.max(measured.arrivals ?? 0, all.length);
  if (all.length === 0) return want((await page.$$(".curves")).length === 0, "curves of nothing");
  await there(page, ".curves path.curve", "curves of arrival");
  const table = "table:has(caption:text-is('How changes arrived'))";
  same(await page.$$eval(`${table} tbody tr`, (rows) => rows.map((r) => [2, 3].map((i) => Number(r.cells[i].innerText.replaceAll(",", ""))))), all.map((a) => [a.log_seq, a.nodes]), "how changes arrived");
  same(await page.$$eval(`${table} tbody code`, (of) => of.map((c) => c.innerText)), all.filter((a) => a.revision_id).map((a) => a.revision_id.slice(0, 8)), "which changes arrived");
  const drawn = await page.$$eval(".curves path.curve", (of) => of.map((c) => [c.getAttribute("class"), (c.getAttribute("d").match(/V/g) ?? []).length]).reverse());
  same(drawn, all.map((a, i) => [`curve curve-${i}`, a.curve.length]), "points of the curves");
}

/** One cell of each row of a long table, whose rows are there while they are near what is seen. */
export async function cells(page, cell = 0) {
  const found = new Map();
  const n = Number(await page.getAttribute("table.long", "aria-rowcount")) - 1;
  await page.evaluate(() => scrollTo(0, 0));
  for (let more = true; more; ) {
    const [at, names] = [await page.evaluate(() => scrollY), await page.$$eval("table.long tbody tr[aria-rowindex]", (all) => all.map((r) => [Number(r.getAttribute("aria-rowindex")), [...r.cells].map((c) => c.innerText)]))];
    for (const [i, texts] of names) found.set(i, texts[cell]);
    more = await page.evaluate((y) => (scrollTo(0, y), scrollY < y), at + 350) ? false : found.size < n;
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  await page.evaluate(() => scrollTo(0, 0));
  same([...found.keys()].sort((a, b) => a - b), Array.from({ length: n }, (_, i) => i + 2), "rows by their number");
  return [...found.entries()].sort((a, b) => a[0] - b[0]).map(([, name]) => name);
}

async function policy(page) {
  const path = `${project}/policies/${given.policy}`;
  const [p, rollout, revisions] = [await ask(path), await ask(`${path}/rollout`), await ask(`${path}/revisions`)];
  await open(page, `policies/${given.policy}`, ".history li");
  await there(page, ".counts .figure");
  same(await page.innerText("h1"), p.slug, "the policy");
  same((await page.innerText(".counts .figure")).match(/[\d,]+/g).map(digits), [rollout.applied, rollout.desired], "its arrival");
  same(await page.$$eval("ol.rules > li", (all) => all.length), p.head.rules.length, "its rules");
  same(await page.$$eval(".history > li", (all) => all.length), revisions.items.length, "its history");
  await arrivals(page, rollout.arrivals ?? []);
  await page.click(".history > li >> nth=0 >> summary");
  await there(page, ".history .diff .added", "the difference of its head");
}

async function node(page) {
  const flow = String(new URLSearchParams(given.flow));
  const [why, list] = [await ask(`/v1/nodes/${given.node}/explain?${flow}`), await ask(`/v1/nodes/${given.node}/policies`)];
  await open(page, `nodes/${given.node}?${flow}`, ".answer .author b");
  await there(page, "table.of-rules");
  const answer = await page.innerText(".answer");
  for (const part of [why.verdict, why.rule.text, why.rule.slug, "root", `${why.considered.length - 1} rules before it`]) want(answer.includes(part), `the answer lacks ${part}: ${answer}`);
  same((await cells(page, 1)).slice(0, -1), list.lines.filter((l) => l.direction === "ingress").map((l) => l.text), "its rules");
  await page.click(".answer summary");
  want((await page.innerText(".answer table")).includes(why.considered[0].reason), "why the first rule did not decide");
}

async function nodes(page) {
  const { items } = await ask(`${project}/nodes?limit=50&label_selector=role%3Ddb`);
  await open(page, "nodes?labels=role%3Ddb", "tbody tr");
  same(await page.$$eval("tbody tr", (all) => all.map((r) => r.cells[0].innerText)), items.map((n) => n.id), "nodes by labels");
}

async function live(page) {
  await open(page, "live", ".stream[data-state=open]");
  await ask(`${project}/nodes/fresh-1`, { method: "PUT", body: { labels: { env: "prod", nonce: String(Date.now()) }, addresses: ["10.16.200.1"] } });
  await there(page, ".events > li:first-child:has-text('fresh-1')", "an event, as it happens");
  await page.click(".events > li:first-child summary");
  await there(page, ".whole .tag.good", "its verdict");
  want((await page.innerText(".whole")).includes("root"), "who wrote it");
}

async function time(page) {
  const { items } = await ask(`/v1/audit?after=5&limit=20`);
  await open(page, `time?from=5&to=25`, ".events > li");
  same(await page.$$eval(".events .seq", (all) => all.map((e) => Number(e.innerText))), items.map((e) => e.seq), "events between two moments");
  await page.waitForFunction(() => [...document.querySelectorAll(".range .moment")].every((m) => m.innerText.trim()));
  const times = [await ask("/v1/audit?after=4&limit=1"), await ask("/v1/audit?after=24&limit=1")].map((a) => a.items[0].time);
  const shown = await page.$$eval(".range .moment", (all) => all.map((m) => m.innerText));
  for (const [i, text] of (await page.evaluate((all) => all.map((t) => new Date(t).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })), times)).entries()) want(shown[i].startsWith(text), `a slider at ${text} says ${shown[i]}`);
  const last = (await ask("/v1/status")).head;
  await open(page, `time?from=60&to=${last}&by=env`, "table:has-text('all nodes')");
  const then = [await ask("/v1/nodes:summary?at=60&by=env"), await ask(`/v1/nodes:summary?at=${last}&by=env`)];
  want(then[0].nodes < then[1].nodes, "nodes that came since");
  const fleet = await page.$$eval("table:has-text('all nodes') tbody tr", (all) => all.map((r) => [r.cells[0].innerText, ...[1, 2].map((i) => Number(r.cells[i].innerText.replace(/\D/g, "")))]));
  same(fleet[0], ["all nodes", then[0].nodes, then[1].nodes], "the fleet at two moments");
  const now = await ask("/v1/nodes:summary?by=env");
  same(fleet.filter((r) => now.groups.some((g) => (g.value ?? "without") === r[0])).map((r) => [r[0], r[2]]).sort(), now.groups.map((g) => [g.value ?? "without", g.nodes]).sort(), "the fleet by env, as it is now");
  const changes = (await ask("/v1/audit?order=desc&limit=200")).items.filter((e) => e.subject.includes(given.policy) && !e.rejected && e.seq <= last);
  const heads = await Promise.all([30, last].map((seq) => ask(`${project}/policies/${given.policy}?at=${seq}`)));
  await open(page, `time?from=30&policy=${given.policy}`, ".side ol.rules");
  await there(page, ".events");
  same(await page.$$eval(".side code", (all) => all.map((e) => e.innerText)), heads.map((p) => p.head.id.slice(0, 8)), "the policy as it was");
  same(await page.$$eval(".side .seq", (all) => all.map((e) => Number(e.innerText.replaceAll(",", "")))), changes.slice(0, 1).map((e) => e.seq), "the event that changed it");
  const became = await ask(`/v1/nodes/${given.node}/diff?from=5&to=${last}`);
  want(became.rows.length > 0, "rulesets that differ");
  await open(page, `time?from=5&to=${last}&node=${given.node}`, "table:has-text('By the event')");
  same(await page.$$eval("table tbody .seq", (all) => all.map((e) => Number(e.innerText.replaceAll(",", "")))), became.rows.map((r) => r.event.seq), "which event gave the node each ruleset");
  same((await page.$$(".columns .side")).length, 2, "two moments side by side");
}

async function admission(page) {
  const decisions = (await ask("/api/v1/decisions?limit=30")).items;
  await open(page, "admission", ".decisions > li");
  want((await page.innerText("table >> nth=0")).includes("no-telnet"), "the admission policy");
  same(await page.$$eval(".decisions .seq", (all) => all.map((e) => Number(e.innerText))), decisions.map((d) => d.seq), "decisions");
  page.mayFail = true; // what a policy refuses is an answer
  await page.click("button.primary:has-text('Try')");
  await there(page, ".answer:has-text('nothing may listen on 23')", "what the present policies say");
  await page.click("text=a draft");
  await page.click("button.primary:has-text('Try')");
  await there(page, ".answer:has-text('not on 23')", "what a draft says");
  page.mayFail = false;
}

async function workers(page) {
  await open(page, "workers", ".partitions");
  await there(page, "table code");
  const [s, keys] = [await ask("/v1/status"), await ask("/v1/keys")];
  const text = await page.innerText("main");
  for (const part of [s.workers[0].name, s.workers[0].http, keys.items[0].key_id, `${s.partitions.length} of ${s.partitions.length}`]) want(text.includes(part), `workers lack ${part}`);
}

export const views = { fleet, policies, policy, nodes, node, live, time, admission, workers };

/** What the views say to type. */
export const commands = new Set();

/** Looks at views in a theme; shots: pictures go there. */
export async function look(page, names, theme, shots) {
  await page.emulateMedia({ colorScheme: theme });
  for (const name of names) {
    await views[name](page);
    await clean(page, `${name}, ${theme}`, given.long || name !== "live");
    commands.add(await page.innerText(".head .command code"));
    await page.keyboard.press("Escape");
    if (shots && !["policies", "nodes"].includes(name)) {
      await page.setViewportSize({ width: 1120, height: 720 });
      await page.evaluate(() => (document.activeElement?.blur(), scrollTo(0, 0)));
      await page.screenshot({ path: `${shots}/${name}-${theme}.png` });
      await page.setViewportSize({ width: 1280, height: 860 });
    }
  }
}

/** Each view at the widths of a small phone and of a large screen: nothing is wider than the page. */
export async function widths(page, names) {
  for (const width of [320, 3840]) {
    await page.setViewportSize({ width, height: 900 });
    for (const name of names) {
      await views[name](page);
      const over = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
      want(over <= 0, `${name} is ${over} pixels wider than ${width}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 860 });
}

/** How soon the page paints first, in milliseconds. */
export async function paint(page) {
  const all = [];
  for (let i = 0; i < 5; i++) {
    await page.goto(given.base + "/ui/fleet");
    await there(page, "section.counts");
    all.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime));
  }
  measured.firstPaint = Math.round(all.sort((a, b) => a - b)[2]);
  return measured.firstPaint;
}
