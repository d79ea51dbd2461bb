// What an operator meets beside the views: odd addresses, tabs that are hidden, a plane that is away or does not answer,
// others who write at the same time. Each step is by itself; test/console_operator_test.go starts the plane.
import http from "node:http";
import { ask, clean, finish, given, newPage, please, project, same, there, want } from "./browser.mjs";

const other = given.guestProject;
let session = [];

const open = async (page, view, selector) => {
  await page.goto(given.base + "/ui/" + view);
  await there(page, selector, view);
};

/** Waits for something to hold on the page. */
const until = (page, holds, what, arg) => page.waitForFunction(holds, arg, { timeout: 60_000 }).catch(() => want(false, what));

/** Has a page take itself for hidden by another tab, until hide(false) is called in it. */
const hidden = (page) => page.addInitScript(() => {
  let is = true;
  Object.defineProperty(document, "hidden", { get: () => is });
  window.hide = (to) => {
    is = to;
    document.dispatchEvent(new Event("visibilitychange"));
  };
});

/** A proxy, whose connections die without a word: those of now for good, those of later until it is revived. */
async function betweenThem() {
  const to = new URL(given.base);
  const all = new Set();
  const dead = new Set();
  let dies = false;
  const server = http.createServer((q, s) => {
    if (dead.has(q.socket)) return;
    const there = http.request({ host: to.hostname, port: to.port, path: q.url, method: q.method, headers: { ...q.headers, host: to.host } }, (a) => {
      s.writeHead(a.statusCode, a.headers);
      a.on("data", (piece) => dead.has(q.socket) || s.write(piece));
      a.on("end", () => dead.has(q.socket) || s.end());
    });
    there.on("error", () => s.destroy());
    s.on("close", () => there.destroy());
    q.pipe(there);
  });
  server.on("connection", (c) => {
    all.add(c);
    if (dies) dead.add(c);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    at: `http://127.0.0.1:${server.address().port}`,
    kill: () => {
      dies = true;
      for (const c of all) dead.add(c);
    },
    revive: () => (dies = false),
    end: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const steps = {
  async "an address that is no text names a node that there is not"(page) {
    page.mayFail = true;
    await open(page, "nodes/%ff", "main .failure");
    await clean(page, "no such node");
  },
  async "the skip link leads to the content"(page) {
    await open(page, "nodes", "tbody tr");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await until(page, () => document.activeElement.id === "main", "the skip link leads nowhere");
  },
  async "other labels begin at their first page"(page) {
    await open(page, "nodes", "tbody tr");
    await page.click("button:text-is('Next')");
    await there(page, ".pages:has-text('page 2')", "the second page");
    await page.keyboard.press("/");
    await page.keyboard.type(`only=${given.first}`);
    await there(page, "[role=option]:has-text('nodes with these labels')", "what the search finds");
    await page.keyboard.press("Enter");
    await there(page, `tbody tr:has-text('${given.first}')`, "the node of these labels");
    same(await page.innerText(".pages .muted"), "page 1", "the page");
  },
  async "before the first event is a moment as well"(page) {
    await open(page, "time?from=0&to=60", ".events > li");
    same(await page.$$eval(".range output", (all) => all.map((o) => o.innerText)), ["0", "60"], "the two moments");
    await there(page, "table:has-text('all nodes')");
    same((await page.$$eval("table:has-text('all nodes') tbody tr:first-child td", (all) => all.map((c) => c.innerText)))[1], "0", "nodes before the first event");
    await open(page, "time?from=0&to=0", ".empty");
    same(await page.$$eval(".range output", (all) => all.map((o) => o.innerText)), ["0", "0"], "the same moment twice");
    await open(page, "time?from=-5&to=1.5", ".events > li");
    want((await page.$$(".failure")).length === 0, "what is no sequence is asked for");
  },
  async "what is not known has not changed by 0"(page) {
    await page.route("**/v1/fleet/history", (r) => r.fulfill({ json: { every_seconds: 10, items: [] } }));
    await open(page, "time?from=60", "tr:has-text('held what they must')");
    same((await page.$$eval("tr:has-text('held what they must') td", (all) => all.map((c) => c.innerText))).slice(1), ["not known", "not known", "–"], "an hour that is not known");
  },
  async "a tab that was opened behind another loads once it is seen"(page) {
    await hidden(page);
    await page.goto(given.base + "/ui/nodes");
    await there(page, "h1:text-is('Nodes')", "the view");
    await page.evaluate(() => window.hide(false));
    await there(page, "tbody tr", "the nodes, once the tab is seen");
  },
  async "the fleet has changed while nobody saw it"(page) {
    await hidden(page);
    await page.goto(given.base + "/ui/fleet?by=env");
    await there(page, "h1:text-is('Fleet')", "the view");
    await page.evaluate(() => window.hide(false));
    await there(page, ".counts .figure", "the fleet");
    await page.waitForTimeout(1500); // its stream is open
    await page.evaluate(() => window.hide(true));
    await ask(`${project}/nodes/behind-1`, { method: "PUT", body: { labels: { env: "late" }, addresses: [] } });
    await page.waitForTimeout(1500); // the stream, were it open, has said so
    await page.evaluate(() => window.hide(false));
    await there(page, "td:has-text('late')", "the node that came while the tab was hidden");
  },
  async "a new link is taken where the page is open already"(page) {
    page.mayFail = true;
    await page.context().clearCookies();
    await page.goto(given.link);
    await there(page, ".no-session", "a link that was used");
    await page.goto(await please("rootlink"));
    await there(page, ".counts", "the fleet, by the new link");
    want(!page.url().includes("code"), "the code stays in the address");
  },
  async "links lead to the project that they are of"(page) {
    await open(page, "live", ".events > li:has-text('guest-1')");
    await page.click(".events > li:has-text('guest-1') summary");
    await page.click(".whole a:text-is('guest-1')");
    await there(page, ".facts", "the node of the other project");
    want(page.url().includes(`project=${other}`), `its address is ${page.url()}`);
    await page.route("**/v1/nodes?*", (r) => r.fulfill({ json: { items: [{ id: "guest-1", project_id: other, labels: {}, addresses: [], version: 1, report: { state: "silent", desired_version: 1 } }], next_cursor: null } }));
    await open(page, "fleet?by=env", "a.id:text-is('guest-1')");
    want((await page.getAttribute("a.id:text-is('guest-1')", "href")).includes(`project=${other}`), "the fleet leads to a node of no such project");
  },
  async "the command of the whole plane's events names no project"(page) {
    await open(page, `live?project=${other}`, ".events > li");
    same(await page.innerText(".head .command code"), "edict events -w", "the command");
  },
  async "a pause loses nothing"(page) {
    await open(page, "live", ".stream[data-state=open]");
    let more = true;
    const writes = (async () => {
      for (let i = 0; more; i++) await ask(`${project}/nodes/busy-1`, { method: "PUT", body: { labels: { i: String(i) }, addresses: [] } });
    })();
    for (let i = 0; i < 4; i++) {
      await page.waitForTimeout(330);
      await page.click("button:text-is('Pause')");
      await page.click("button:text-is('Go on')");
    }
    more = false;
    await writes;
    const { head } = await ask("/v1/status");
    await until(page, (seq) => document.querySelector(".events .seq").innerText === String(seq), "the last event", head);
    const seqs = await page.$$eval(".events .seq", (all) => all.map((e) => Number(e.innerText)));
    same(seqs.filter((s, i) => i > 0 && seqs[i - 1] - s !== 1), [], "events below which some are missing");
  },
  async "what was not copied is not called so"(page) {
    await page.addInitScript(() => {
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      document.execCommand = () => false;
    });
    await open(page, "nodes", "main [data-copy]");
    await page.click("main [data-copy]");
    await there(page, "main [data-copy]:text-is('Selected')", "that it was not copied");
    same(await page.evaluate(() => String(getSelection())), "edict node list", "what is selected");
  },
  async "Enter takes what was typed and not what was found before"(page) {
    await open(page, "fleet", ".counts");
    await page.keyboard.press("/");
    await page.keyboard.type("shop-app-to-d");
    await there(page, "[role=option]:has-text('shop-app-to-db')", "what the search finds");
    await page.fill("#search", given.first);
    await page.keyboard.press("Enter");
    await there(page, `h1:text-is('${given.first}')`, "the node");
  },
  async "a search that was not made found nothing out"(page) {
    page.mayFail = true;
    await open(page, "nodes", "tbody tr");
    await page.route("**/v1/projects/**", (r) => r.abort());
    await page.keyboard.press("/");
    await page.keyboard.type("web");
    await there(page, "[role=option]:has-text('Not looked for')", "that the plane does not answer");
  },
  async "a proxy that does not reach the plane is no answer of it"(page) {
    page.mayFail = true;
    await open(page, "nodes", "tbody tr");
    const away = (r) => r.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>" });
    for (const at of ["**/v1/**", "**/readyz"]) await page.route(at, away);
    await page.click("nav a:text-is('Time')");
    await there(page, ".connection[data-state=lost]", "that the plane does not answer");
    await page.unrouteAll();
    await there(page, ".events > li", "the view, once it does again");
  },
  async "a plane that says nothing does not answer"(page) {
    page.mayFail = true;
    await open(page, "nodes", "tbody tr");
    for (const at of ["**/v1/**", "**/livez", "**/readyz"]) await page.route(at, () => undefined);
    await there(page, ".connection[data-state=lost]", "that the plane does not answer");
    want((await page.$$("tbody tr")).length > 0, "what was shown stays");
  },
  async "connections that died give way to new ones"(first) {
    const { at, kill, revive, end } = await betweenThem();
    const pages = [];
    for (let i = 0; i < 2; i++) { // together they ask more at a time than a browser has connections to one address
      const page = await newPage("through a proxy", { also: at });
      page.mayFail = true;
      pages.push(i === 0 ? page : await pages[0].context().newPage());
      if (i === 0) await page.context().addCookies(await first.context().cookies());
      await pages[i].goto(at + "/ui/fleet?by=env");
      await there(pages[i], "tbody tr", "the fleet");
    }
    kill();
    for (const page of pages) await there(page, ".connection[data-state=lost]", "that the plane does not answer");
    revive();
    for (const page of pages) await until(page, () => document.querySelector(".connection").dataset.state !== "lost", "it does not connect anew");
    await pages[0].context().close();
    end();
  },
  async "a plane that starts is waited for"(page) {
    page.mayFail = true;
    let refused = 0;
    await page.route("**/v1/access/self", (r) => (refused++ ? r.fallback() : r.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ type: "about:blank", title: "Starting", status: 503, code: "starting", detail: "the fold is behind", instance: "" }) })));
    await open(page, "fleet", ".counts");
  },
  async "who may not be served is told why"(page) {
    page.mayFail = true;
    await page.route("**/v1/access/self", (r) => r.fulfill({ status: 400, contentType: "application/problem+json", body: JSON.stringify({ type: "about:blank", title: "Bad header", status: 400, code: "bad_header", detail: "ask at 127.0.0.1", instance: "" }) }));
    await open(page, "fleet", ".failure:has-text('ask at 127.0.0.1')");
  },
  async "all that refuse are counted"(page) {
    await open(page, `policies/${given.policy}`, ".counts .figure");
    const { refusals } = await ask(`${project}/policies/${given.policy}/rollout?limit=1000`);
    want(refusals.length > 50, "more refuse than are listed");
    await until(page, (n) => [...document.querySelectorAll(".counts .legend li")].some((l) => l.innerText.trim() === `${n} refused`), `not ${refusals.length} refused: ${await page.innerText(".counts .legend")}`, refusals.length);
    await page.click(".counts summary");
    same((await page.$$(".counts tbody tr")).length, 50, "nodes that are listed");
    want((await page.innerText(".counts summary")).includes("50"), "it is not said that more lag");
  },
  async "a key is good until later"(page) {
    await open(page, "workers", "table:has-text('Not after')");
    const until = await page.$$eval("table:has-text('Not after') tbody td:last-child", (all) => all.map((c) => c.innerText));
    want(until.some((t) => /^in \d/.test(t)) && !until.includes("just now"), `keys are good until ${until}`);
  },
  async "the events that were rejected last are shown"(page) {
    const { head } = await ask("/v1/status");
    const all = Array.from({ length: 300 }, (_, i) => ({ seq: i + 1, time: "2026-01-01T00:00:00Z", type: "node_updated", subject: "s", event_id: String(i), code: "invalid_label", detail: "d" }));
    await page.route("**/v1/rejected*", (r) => {
      const q = new URL(r.request().url()).searchParams;
      const items = all.filter((x) => x.seq > Number(q.get("after") ?? 0)).slice(0, Number(q.get("limit")));
      void r.fulfill({ json: { items, next_cursor: items.at(-1)?.seq < 300 ? String(items.at(-1).seq) : null } });
    });
    want(head > 0, "the log has a head");
    await open(page, "workers", "table:has-text('invalid_label') tbody tr");
    same(await page.$$eval("table:has-text('invalid_label') tbody td:first-child", (c) => [c.length, c[0].innerText, c.at(-1).innerText]), [50, "300", "251"], "rejected events");
  },
  async "a browser whose clock is wrong shows the last hour"(page) {
    await page.addInitScript(() => {
      const now = Date.now.bind(Date);
      Date.now = () => now() + 3 * 3_600_000;
    });
    await ask(`${project}/nodes/clock-1`, { method: "PUT", body: { labels: { env: "prod", n: String(Math.random()) }, addresses: [] } });
    await open(page, "live", ".events > li:has-text('clock-1')");
    await open(page, `policies/${given.policy}`, ".facts time");
    want(!(await page.innerText(".facts")).includes("3 h"), "what was published a moment ago was so hours ago");
  },
  async "a draft of an older head is planned again"(page) {
    const path = `${project}/policies/${given.policy}`;
    await open(page, `policies/${given.policy}`, "#draft");
    const publish = async (to) => {
      const { rules } = (await ask(path)).head;
      await ask(path, { method: "PATCH", body: { rules: rules.map((r, i) => (i === 0 ? { ...r, ports: { ...r.ports, to } } : r)) } });
    };
    await publish(5440);
    await until(page, () => document.querySelector("#draft").value.includes("5440"), "a draft that nobody wrote at is not of the new head");
    await page.fill("#draft", (await page.inputValue("#draft")).replace("5440", "5441"));
    await page.click("button:text-is('Plan')");
    await there(page, "button.primary:enabled:text-is('Stage')", "that it can be staged");
    await publish(5450);
    await there(page, ".failure:has-text('newer head')", "that somebody else published");
    want(await page.isDisabled("button.primary:text-is('Stage')"), "a draft of an older head can be staged unseen");
    await page.click("button:text-is('Begin with it instead')");
    want((await page.inputValue("#draft")).includes("5450"), "the draft is not of the new head");
  },
  async "an empty value of a label is seen"(page) {
    await ask(`${project}/nodes/empty-1`, { method: "PUT", body: { labels: { env: "" }, addresses: [] } });
    await open(page, "fleet?by=env", "td a:has-text('(empty)')");
    await page.click("td a:has-text('(empty)')");
    await there(page, "tbody tr:has-text('empty-1')", "the node with an empty value");
    same((await page.$$("tbody tr")).length, 1, "nodes with an empty value");
  },
  async "who opens a row by the keyboard goes on in the view"(page) {
    await open(page, "nodes", "tbody tr");
    await page.keyboard.press("j");
    const id = await page.evaluate(() => document.activeElement.innerText);
    await page.keyboard.press("Enter");
    await there(page, `h1:text-is('${id}')`, "the row that was opened");
    await until(page, (of) => document.activeElement.getAttribute("aria-label") === of, "the focus is nowhere", id);
  },
  async "a draft of an admission policy is tried without TLS as well, and may change the request"(page) {
    page.mayFail = true; // no decisions are kept
    await page.addInitScript(() => (crypto.randomUUID = undefined));
    await open(page, "admission", "text=a draft");
    await page.click("text=a draft");
    await page.fill(".columns label:nth-child(2) textarea", 'package dcm.policy.draft\n\nresult := {"patch": {"slug": "other"}}');
    await page.click("button.primary:has-text('Try')");
    await there(page, ".answer .tag.accent:text-is('modified')", "what the draft says");
  },
  async "all admission policies are listed"(page) {
    page.mayFail = true; // no decisions are kept
    const all = Array.from({ length: 230 }, (_, i) => ({ id: `p-${i}`, name: `policy-${i}`, policy_type: "Global", priority: i, enabled: true, mode: "enforced", rego_code: "", updated_at: "2026-01-01T00:00:00Z" }));
    await page.route("**/api/v1/policies?*", (r) => {
      const from = Number(new URL(r.request().url()).searchParams.get("cursor") ?? 0);
      void r.fulfill({ json: { items: all.slice(from, from + 200), next_cursor: from === 0 ? "200" : null } });
    });
    await open(page, "admission", "td a.id");
    same((await page.$$("td a.id")).length, all.length, "admission policies");
  },
  async "who may see no policy is not told that there is none"(page) {
    page.mayFail = true;
    await page.context().clearCookies();
    await page.goto(await please("operatorlink"));
    await there(page, ".counts", "the fleet");
    await open(page, "policies", ".quiet:has-text('that you may see')");
    await open(page, "time", ".head .command code");
    want(!(await page.innerText(".head .command code")).includes("audit"), "a command for who may read the whole plane");
  },
  async "what was drafted is there when one comes back"(page) {
    await open(page, `policies/${given.policy}`, "#draft");
    await page.fill("#draft", (await page.inputValue("#draft")).replace("allow", "deny"));
    await page.click("nav a:text-is('Nodes')");
    await there(page, "h1:text-is('Nodes')");
    await page.goBack();
    await there(page, "#draft", "the policy again");
    want((await page.inputValue("#draft")).includes("deny"), "what was drafted is gone");
    await page.reload();
    await there(page, "#draft", "the policy, loaded again");
    want((await page.inputValue("#draft")).includes("deny"), "what was drafted is gone with the page");
    await page.click("button:text-is('Sign out')");
    await there(page, ".no-session", "that the session is closed");
    same(await page.evaluate(() => sessionStorage.length), 0, "what stays for who comes next");
  },
  async "the fleet is shown though its numbers change faster than they are answered"(page) {
    await page.route("**/v1/nodes:summary*", async (r) => {
      await new Promise((done) => setTimeout(done, 2500));
      await r.continue().catch(() => undefined); // the page may be gone
    });
    let shown = false;
    const changes = (async () => {
      for (let i = 0; !shown; i++) {
        await ask(`${project}/nodes/changes-1`, { method: "PUT", body: { labels: { env: `changes-${i}` }, addresses: [] } });
        await new Promise((done) => setTimeout(done, 200));
      }
    })();
    await open(page, "fleet?by=env", ".counts .figure").finally(() => (shown = true));
    await changes;
    await ask(`${project}/nodes/changes-1`, { method: "DELETE" });
  },
  async "one node of many that is not as the others is seen in the bar"(page) {
    await page.route("**/v1/nodes:summary*", async (r) => {
      const real = await (await r.fetch()).json();
      await r.fulfill({ json: { ...real, nodes: 10_000, applied: 9998, lagging: 0, refused: 1, silent: 1 } });
    });
    await open(page, "fleet?by=env", ".counts .bar");
    const parts = await page.$$eval(".counts .bar rect:not(.bar-ground)", (all) => all.map((r) => [r.getAttribute("class"), Number(r.getAttribute("x")), Number(r.getAttribute("width"))]));
    same(parts.filter(([, x, wide]) => wide >= 4 && x + wide < 1000.01).map(([name]) => name), ["good", "bad", "silent"], "the parts that are seen");
  },
  async "the whole plane is counted and listed, whatever project is shown"(page) {
    const nothing = crypto.randomUUID(); // a project without nodes
    await open(page, `fleet?project=${nothing}`, "td a:text-is('prod')");
    await page.click("td a:text-is('prod')");
    await there(page, "tbody tr:has-text('db-00')", "nodes of another project");
    same(await page.innerText(".head .command code"), "edict node list -A -l env=prod", "the command");
    await page.selectOption("select[name=all]", "");
    await page.click("button:text-is('Show')");
    await there(page, ".empty", "that the project has no such node");
  },
  async "what is staged is not what made the head"(page) {
    const side = { source: "env=staged", destination: "env=staged" };
    const rule = { action: "allow", protocol: "tcp", ports: { from: 1, to: 2 }, source_cidr: "10.0.0.0/8", destination_cidr: "10.0.0.0/8" };
    const p = await ask(`${project}/policies`, { method: "POST", body: { slug: "is-staged", selector: side, rules: [rule] } });
    const made = (await ask("/v1/status")).head;
    await ask(`${project}/policies/${p.id}/stage`, { method: "POST", body: { selector: side, rules: [{ ...rule, protocol: "udp" }] } });
    page.mayFail = true; // there was no such policy at first
    await open(page, `time?policy=${p.id}&from=${made - 1}`, ".side:has-text('by event')");
    const by = await page.innerText(".side:has-text('by event')");
    want(by.includes(`by event ${made.toLocaleString("en")} policy revision created`), `the head came by another event than ${made}, which made it: ${by}`);
  },
  async "a node of thousands of changes is as the last one left it"(page) {
    await page.route("**/v1/access/self", async (r) => r.fulfill({ json: { ...(await (await r.fetch()).json()), kind: "person", relations: [`project:${project.split("/").at(-1)}#read`] } }));
    await page.route("**/nodes:summary*", async (r) => r.fulfill({ json: { ...(await (await r.fetch()).json()), seq: 3000 } }));
    await page.route("**/events?*", (r) => {
      const after = Number(r.request().headers()["last-event-id"]);
      const events = Array.from({ length: 3000 - after }, (_, i) => after + 1 + i).map((seq) =>
        `id: ${seq}\nevent: log_event\ndata: ${JSON.stringify({ seq, type: "node_updated", time: "2026-11-20T12:00:00Z", verdict: "applied", node_id: "often-1", event_id: `e${seq}`, subject: "s", change: { node: { labels: { n: String(seq) }, addresses: [] } } })}\n\n`);
      return r.fulfill({ contentType: "text/event-stream", body: events.join("") + "event: caught_up\ndata: {}\n\n" });
    });
    await open(page, "time?node=often-1&from=2500&to=3000", ".side .label");
    same(await page.$$eval(".side .label", (all) => all.map((l) => l.innerText)), ["n=2500", "n=3000"], "the node at both moments");
  },
  async "a flow without a port is not explained as another"(page) {
    await open(page, `nodes/${given.first}?peer=10.0.0.7&port=5432`, ".answer");
    await page.fill("input[name=port]", "");
    await page.click("button:text-is('Explain')");
    want(page.url().includes("port=5432"), `the port that nobody named is taken for another: ${page.url()}`);
  },
  async "every protocol that the form of a flow has is explained"(page) {
    await open(page, `nodes/${given.first}`, "select[name=protocol]");
    const all = await page.$$eval("select[name=protocol] option", (options) => options.map((o) => o.value));
    for (const protocol of all) {
      await page.fill("input[name=peer]", "10.0.0.7");
      await page.selectOption("select[name=protocol]", protocol);
      await page.click("button:text-is('Explain')");
      await until(page, (p) => new URLSearchParams(location.search).get("protocol") === p, "the flow is not asked about", protocol);
      await there(page, ".answer, main .failure", protocol);
      want((await page.$$("main .failure")).length === 0, `${protocol} is offered, and refused`);
    }
  },
  async "a draft is planned as it was typed"(page) {
    page.mayFail = true; // it is refused
    await open(page, `policies/${given.policy}`, "#draft");
    const typed = (await page.inputValue("#draft")).replace(/^\{/, '{"mode": "audit", "mode": "enforce",');
    await page.fill("#draft", typed);
    await page.click("button:text-is('Plan')");
    await there(page, "main .failure:has-text('duplicate_key')", "that a member stands there twice");
  },
  async "a form shows what the address asks for, and asks for it again"(page) {
    const chosen = () => page.$$eval("main form select", (all) => all.map((s) => s.value));
    await open(page, "nodes?all=true&state=refused", "main form");
    same(await chosen(), ["refused", "true"], "the state and the projects");
    await page.fill("input[name=labels]", "env=prod");
    await page.click("button:text-is('Show')");
    same(new URL(page.url()).searchParams.get("state"), "refused", "the state, once the labels are others");
    same(await chosen(), ["refused", "true"], "the state and the projects, shown again");
    await open(page, "live?type=node_updated", "main form");
    same(await chosen(), ["node_updated"], "the type of events");
    await open(page, `nodes/${given.first}?peer=10.0.0.7&direction=egress&protocol=udp&port=53`, ".answer");
    same(await chosen(), ["egress", "udp"], "the flow");
    await page.fill("input[name=port]", "54");
    await page.click("button:text-is('Explain')");
    want(page.url().includes("direction=egress&protocol=udp&port=54"), `another flow is explained: ${page.url()}`);
  },
  async "tabs of Live that nobody sees leave the six connections of a browser to the one that is seen"(page) {
    const tabs = [];
    for (let i = 1; i <= 7; i++) {
      const tab = await page.context().newPage();
      tabs.push(tab);
      await hidden(tab);
      await open(tab, "live", "h1:text-is('Live')");
      await tab.evaluate(() => window.hide(false));
      await there(tab, ".stream[data-state=open]", `tab ${i}`);
      await there(tab, ".events > li", `tab ${i}`);
      await tab.evaluate(() => window.hide(true));
    }
    await ask(`${project}/nodes/unseen-1`, { method: "PUT", body: { labels: { env: "unseen" }, addresses: [] } });
    await tabs[0].evaluate(() => window.hide(false));
    await there(tabs[0], ".events > li:has-text('unseen-1')", "what came while the tab was hidden");
    const seqs = await tabs[0].$$eval(".events .seq", (all) => all.map((e) => Number(e.innerText)));
    same(seqs.filter((s, i) => i > 0 && seqs[i - 1] - s !== 1), [], "events below which some are missing, or come twice");
  },
  async "keys of the page do nothing behind the dialogue that lists them"(page) {
    await open(page, "nodes", "tbody tr");
    await page.keyboard.press("?");
    await there(page, "dialog.keys[open]", "the keys");
    for (const key of ["g", "f", "j", "/", "c", "?"]) await page.keyboard.press(key);
    same(new URL(page.url()).pathname, "/ui/nodes", "the view behind the dialogue");
    same(await page.innerText("main [data-copy]"), "Copy", "the command behind the dialogue");
    await page.keyboard.press("Escape");
    await until(page, () => !document.querySelector("dialog.keys").open, "Esc does not leave the dialogue");
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await there(page, ".counts", "the fleet, by its keys, once the dialogue is left");
  },
  async "a payload is tried as it was typed, and shown as the plane made it"(page) {
    page.mayFail = true; // some of it is refused
    const typed = '{"service_type": "tried", "n": 12345678901234567890, "n2": 1e400}';
    await open(page, "admission", "textarea");
    const sent = async (text, against) => {
      await page.click(`.tabs button:text-is('${against}')`);
      await page.fill("textarea >> nth=0", text);
      const [request] = await Promise.all([page.waitForRequest((r) => r.method() === "POST"), page.click("button.primary:has-text('Try')")]);
      return request.postData();
    };
    for (const against of ["present policies", "a draft"]) want((await sent(typed, against)).includes(typed), `${against}: another payload is tried than was typed`);
    want((await sent('{"a": 1, "a": 2}', "present policies")).includes('{"a": 1, "a": 2}'), "of a member that was typed twice one is tried");
    await there(page, ".failure:has-text('duplicate_key')", "that a member stands there twice");
    for (const against of ["present policies", "a draft"]) {
      for (const text of ["null", "[]", "7"]) {
        await page.click(`.tabs button:text-is('${against}')`);
        await page.fill("textarea >> nth=0", text);
        await page.click("button.primary:has-text('Try')");
        await there(page, ".failure:text-is('A payload is an object in JSON, such as {\"service_type\": \"network-policy\"}.')", `${against}: that ${text} is no payload`);
        await page.fill("textarea >> nth=0", "{");
        await page.click("button.primary:has-text('Try')");
        await there(page, ".failure:has-text('position')", "that it is no JSON");
      }
    }
    await page.route("**/v1/engine/evaluate*", (r) => r.fulfill({ contentType: "application/json", body: `{"status": "MODIFIED", "request_payload": ${typed}, "explain": {"steps": []}}` }));
    await sent("{}", "present policies");
    await there(page, ".answer pre", "what the plane made of it");
    for (const n of ["12345678901234567890", "1e400"]) want((await page.innerText(".answer pre")).includes(n), `${n} is shown as another number`);
  },
  async "who signs out while the plane is away is told that there still is a session"(page) {
    page.mayFail = true;
    await open(page, "fleet", ".counts");
    for (const at of ["**/v1/**", "**/readyz", "**/livez"]) await page.route(at, (r) => r.abort());
    await page.click("button:text-is('Sign out')");
    await there(page, ".connection:has-text('still signed in')", "that there still is a session");
    want((await page.context().cookies()).length === 1, "the cookie");
    await page.unrouteAll();
    await there(page, ".no-session", "that it is closed, once the plane answers");
    same((await page.context().cookies()).length, 0, "cookies after the end");
  },
};

const first = await newPage("administrator");
await first.goto(given.link);
await there(first, ".counts", "the fleet");
session = await first.context().cookies();
for (const [name, step] of Object.entries(steps)) {
  const page = await newPage(name);
  await page.context().addCookies(session);
  await step(page).catch((err) => want(false, `${name}: ${err.message}`));
  await page.context().close();
}
await finish();
