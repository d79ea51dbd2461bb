// Drives a browser through the console of a plane with a fleet on real policies: what it shows is held against an oracle,
// which test/console_fleet_test.go asks, and what the page costs is measured.
import { ask, clean, finish, given, measured, newPage, open, please, same, there, want } from "./browser.mjs";
import { cells, look, paint, views } from "./views.mjs";

const digits = (text) => text.match(/[\d,]+/g).map((n) => Number(n.replaceAll(",", "")));
const is = given.expected;

async function administrator() {
  const page = await newPage("administrator");
  await page.goto(given.link);
  await there(page, ".counts", "the fleet");
  return page;
}

// What each screen shows, as the oracle has it.
async function agrees(page) {
  await open(page, "fleet?by=env", "section.counts .figure b");
  await there(page, "tbody tr");
  same(digits(await page.innerText("section.counts .figure"))[1], is.nodes, "the fleet's nodes");
  const rows = await page.$$eval("table >> nth=0 >> tbody tr", (all) => all.map((r) => [r.cells[0].innerText === "without" ? "" : r.cells[0].innerText, Number(r.cells[2].innerText.replaceAll(",", ""))]));
  same(Object.fromEntries(rows.sort()), Object.fromEntries(Object.entries(is.env).sort()), "nodes by env");

  await open(page, "policies", "tbody tr");
  same((await cells(page)).sort(), is.policies.sort(), "policies");

  await open(page, `policies/${given.policy}`, ".counts .figure");
  same(digits(await page.innerText(".counts .figure"))[1], is.selected, "whom the policy selects");
  same(await page.$$eval("ol.rules > li", (all) => all.length), is.rules, "its rules");

  await open(page, `nodes/${given.node}`, ".facts code[title]");
  same(await page.getAttribute(".facts code[title]", "title"), is.fingerprint, "what the node must apply");
  const obeys = new Set();
  for (const way of ["ingress", "egress"]) {
    await open(page, `nodes/${given.node}?way=${way}`, "table.of-rules");
    for (const rule of (await cells(page, 2)).slice(0, -1)) obeys.add(rule.split(" ")[0]);
  }
  same([...obeys].sort(), is.obeys, "the policies that the node obeys");
  await page.goto(`${given.base}/ui/nodes/${given.node}?${new URLSearchParams(given.flow)}`);
  await there(page, ".answer .author a", "why a flow is decided as it is");
  want(is.obeys.includes(await page.innerText(".answer .author a")), "a policy decides that the node does not obey");
}

// An hour of ten events a second and more, while the page follows, and a kill -9 in the middle.
async function hour(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const heap = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "JSHeapUsedSize").value / 1e6;
  await open(page, "live", ".stream[data-state=open]");
  const first = (await ask("/v1/status")).head;
  let peak = 0;
  const sampler = setInterval(() => heap().then((n) => (peak = Math.max(peak, n))).catch(() => undefined), 250);
  let last = 0;
  for (let i = 0; i < 4; i++) {
    if (i === 2) {
      page.mayFail = true;
      await please("kill");
      await there(page, ".connection[data-state=lost]", "that the plane does not answer");
      await please("start");
      await page.waitForFunction(() => document.querySelector(".connection").dataset.state !== "lost");
    }
    last = Number(await please("events"));
  }
  await page.waitForFunction((seq) => document.querySelector(".events > li .seq")?.innerText === String(seq), last, { timeout: 60_000 });
  clearInterval(sampler);
  const left = await heap(); // with what the browser has not collected yet
  page.mayFail = false;
  await cdp.send("HeapProfiler.collectGarbage");
  const kept = await heap();
  Object.assign(measured, { hourEvents: last - first, heapPeakMB: Number(peak.toFixed(1)), heapLeftMB: Number(left.toFixed(1)), heapAfterMB: Number(kept.toFixed(1)), rowsKept: await page.$$eval(".events > li", (all) => all.length) });
  want(last - first >= 36_000, `only ${last - first} events came`);
  want(kept <= 60, `the page uses ${kept.toFixed(1)} MB after an hour's events`);
  await page.evaluate(() => (window.shifts = 0)); // new rows push older ones down, as they are to
  await clean(page, "live, after an hour");
}

// How many frames a second a page shows that is scrolled by 2,400 pixels a second, as by a wheel that is spun.
const frames = (page) => page.evaluate(() => new Promise((done) => {
  scrollTo(0, 0);
  let shown = 0;
  let began = 0;
  const step = (now) => {
    began ||= now;
    if (now - began >= 3000) return done((shown * 1000) / (now - began));
    shown++;
    scrollBy(0, 40);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}));

// A screen of 1,000 rows, in turns with a page that has nothing on it: where a machine is too busy for that, it is for all.
async function scroll(page) {
  await please("fill");
  await open(page, "policies", "table[aria-rowcount='1001']");
  const blank = await newPage("nothing");
  await blank.goto("about:blank");
  await blank.evaluate(() => (document.body.style.height = "40000px"));
  const [listed, nothing] = [[], []];
  for (let i = 0; i < 3; i++) {
    await blank.bringToFront();
    nothing.push(Math.round(await frames(blank)));
    await page.bringToFront();
    listed.push(Math.round(await frames(page)));
  }
  await blank.context().close();
  Object.assign(measured, { framesASecond: listed, framesOfNothing: nothing });
  want(Math.max(...listed) >= Math.min(50, 0.9 * Math.max(...nothing)), `1,000 rows scroll at ${listed} frames a second, a page with nothing at ${nothing}`);
}

try {
  const page = await administrator();
  await agrees(page);
  for (const theme of ["light", "dark"]) await look(page, Object.keys(views), theme, "");
  const first = await paint(page);
  want(first <= 300, `with a fleet the page paints first after ${first} ms`);
  await scroll(page);
  await hour(page);
} catch (err) {
  want(false, err.stack);
}
await finish();
