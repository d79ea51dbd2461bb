// Drives a browser through the console of a real plane. The test in test/console_test.go starts
// the plane, says by EDICT_CONSOLE where it is, and does what is asked of it on standard output.
import { ask, clean, finish, given, measured, newPage, open, please, project, same, there, want } from "./browser.mjs";
import { attempts, plant } from "./hostile.mjs";
import { commands, look, paint, views, widths } from "./views.mjs";

async function administrator() {
  const page = await newPage("administrator");
  await page.goto(given.link);
  await there(page, ".counts", "the fleet");
  want(!page.url().includes("code"), "the code stays in the address");
  same((await page.context().cookies()).map((c) => [c.httpOnly, c.sameSite]), [[true, "Strict"]], "cookies");
  want(!(await page.evaluate(() => document.cookie)), "a script reads the session");
  const names = given.long ? Object.keys(views) : ["fleet", "policy", "node", "live"];
  await look(page, names, "light", given.shots);
  if (given.long) {
    await look(page, names, "dark", given.shots);
    await widths(page, names);
    const first = await paint(page);
    want(first <= 300, `the page paints first after ${first} ms`);
  }
  return page;
}

async function usedLink() {
  const page = await newPage("used link");
  page.mayFail = true;
  await page.goto(given.link);
  await there(page, ".no-session", "a link that was used");
}

// The issuer is another site than the plane: what the browser keeps on the way must come back from there.
async function signsIn() {
  const page = await newPage("sign in", { also: given.issuer });
  page.mayFail = true; // without a session there is nothing to see
  await page.goto(`${given.base}/ui/nodes?labels=role%3Ddb`);
  await there(page, ".no-session a.button", "where to sign in");
  await clean(page, "no session");
  await page.click(".no-session a.button");
  await page.click("button:text-is('Cancel')");
  await there(page, ".no-session:has-text('did not let you in')", "that it was cancelled");
  await page.goto(`${given.base}/ui/nodes?labels=role%3Ddb`);
  await page.click(".no-session a.button");
  await page.click("button:text-is('Sign in')");
  await there(page, ".who:has-text('ana')", "who signed in");
  same(page.url(), `${given.base}/ui/nodes?labels=role%3Ddb`, "the view that was asked for");
  await there(page, "tbody tr", "its nodes");
  same((await page.context().cookies(given.base)).map((c) => [c.httpOnly, c.sameSite]), [[true, "Strict"]], "cookies of who signed in");
  await page.context().close();
}

async function keys(page) {
  await open(page, "fleet", ".counts");
  page.mayFail = true; // what is typed may be a node's id, and mostly is not
  await page.keyboard.press("/");
  await page.keyboard.type("shop-app-to-d");
  await there(page, "[role=option]:has-text('shop-app-to-db')", "what the search finds");
  await page.keyboard.press("Enter");
  await there(page, "h1:has-text('shop-app-to-db')", "what was found");
  await page.keyboard.press("/");
  await page.keyboard.type("tcp 5432 from");
  await there(page, "[role=option]:has-text('rule'):has-text('shop-app-to-db')", "a rule, by its words");
  await page.click("[role=option]:has-text('rule'):has-text('shop-app-to-db')");
  await there(page, "ol.rules > li.found", "the rule that was found");
  same(await page.$$eval("ol.rules > li", (all) => all.filter((li) => li.className === "found").map((li) => ["tcp", "5432", "from"].every((w) => li.innerText.includes(w)))), [true], "what is marked is what was looked for");
  page.mayFail = false;
  const begins = given.node.slice(0, -2);
  const found = (await ask(`${project}/nodes?prefix=${begins}&limit=1`)).items[0].id;
  await page.keyboard.press("/");
  await page.keyboard.type(begins);
  await there(page, `[role=option]:has-text('${found}')`, "a node, by how its id begins");
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("n");
  await there(page, "h1:text-is('Nodes')", "g n");
  await there(page, "tbody tr");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const second = await page.$eval("tbody tr:nth-child(2) a", (a) => a.innerText);
  await page.keyboard.press("Enter");
  await there(page, `h1:text-is('${second}')`, "the second row");
  await page.keyboard.press("?");
  await there(page, "dialog[open]", "the keys");
  await clean(page, "keys");
  await page.keyboard.press("Escape");
}

async function writing(page) {
  const path = `${project}/policies/${given.policy}`;
  await open(page, `policies/${given.policy}`, "#draft");
  const draft = JSON.parse(await page.inputValue("#draft"));
  draft.rules = draft.rules.slice(0, 1);
  await page.fill("#draft", JSON.stringify(draft));
  await page.click("button:text-is('Plan')");
  await there(page, ".plan .diff .removed", "what the draft would do");
  await page.click("button:text-is('Stage')");
  await there(page, ".moves textarea", "what is staged");
  same((await ask(path)).waves.phase, "staged", "the rollout");
  await page.fill(".moves textarea", "env=dev\nenv=prod,region=eu");
  await page.click("button:text-is('Promote')");
  await there(page, ".waves li.opened", "the first wave");
  same((await ask(path)).waves.waves.length, 2, "waves");
  await page.fill(".moves input[name=reason]", "enough");
  await page.click("button:text-is('Abort')");
  await there(page, ".tag:has-text('aborted')", "the end of it");
  same((await ask(path)).waves.reason, "enough", "why it ended");
}

async function typed() {
  for (const command of commands) {
    if (command.includes(" -w")) continue; // goes on for ever
    const code = await please(`type ${command}`);
    // a rollout that has not arrived yet ends with 1
    want(code === "0" || (code === "1" && command.includes("rollout")), `${command}: exit code ${code}`);
  }
}

async function killed(page) {
  await open(page, "fleet", ".counts");
  page.mayFail = true;
  await please("kill");
  await there(page, ".connection[data-state=lost]", "that the plane does not answer");
  want(await page.isVisible(".counts .figure"), "what was shown stays");
  await please("start");
  await there(page, ".connection:not([data-state=lost])", "that it answers again");
  await page.waitForFunction(() => document.querySelector(".connection").dataset.state !== "lost");
  page.mayFail = false;
  await views.live(page);
}

async function oneProject() {
  const page = await newPage("one project");
  page.mayFail = true; // what it may not ask is refused
  await page.goto(await please("link")); // it works once, within a minute
  await there(page, "section.counts .figure, .empty", "the fleet of its project");
  const { nodes } = await ask(`/v1/projects/${given.guestProject}/nodes:summary`, { token: given.guestToken });
  want((await page.innerText(".counts .figure")).includes(`of ${nodes} `), "the nodes of its project");
  for (const view of ["fleet", "policies", "nodes", "live", "time", "workers", "admission", `nodes/${given.node}`, `policies/${given.policy}`, "nodes?project=00000000-0000-4000-8000-000000000000"]) {
    await page.goto(`${given.base}/ui/${view}`);
    await page.waitForSelector("h1");
    await page.waitForTimeout(400);
    const text = await page.innerText("main");
    want(!/shop-app-to-db|web-prod|10\.16\.|nothing may listen/.test(text), `${view} shows another project: ${text.slice(0, 300)}`);
  }
  await page.goto(`${given.base}/ui/workers`);
  await there(page, ".failure:has-text('plane#read')", "what it may not see");
  await please("revoke");
  await page.goto(`${given.base}/ui/fleet`);
  await there(page, ".no-session", "that the session is over");
  await clean(page, "no session");
}

async function hostile(page) {
  measured.attempts = await plant();
  page.mayFail = true; // there is no node of such a name
  for (const at of attempts()) {
    await page.goto(`${given.base}/ui/${at}`);
    await page.waitForSelector("main h1");
    await page.waitForTimeout(150);
    for (const d of await page.$$("main details:not([open]) > summary")) await d.click({ timeout: 2000 }).catch(() => undefined);
    const found = await page.evaluate(() => ({
      ran: window.attacked ?? 0, refused: window.refusedContent,
      // Outside of quotation marks a shell takes these letters, and does nothing else.
      typed: [...document.querySelectorAll(".command code")].map((c) => c.textContent).filter((text) => !/^[\w@%+=:,./ -]*$/.test(text.replace(/'[^']*'|\\'/g, ""))),
      made: document.querySelectorAll("main script, main iframe, main img, main object, main embed, main [onerror], main [onload], main a[href^='javascript:' i]").length,
    }));
    same(found, { ran: 0, refused: [], typed: [], made: 0 }, `${at}: what hostile text did`);
  }
}

try {
  const page = await administrator();
  want(measured.arrivals >= 2, `the curves of ${measured.arrivals} changes are shown, and two arrived`);
  await usedLink();
  if (given.long) {
    await signsIn();
    await keys(page);
    await writing(page);
    await typed();
    await killed(page);
    await oneProject();
    await hostile(page);
  }
  await page.click("button:text-is('Sign out')");
  await there(page, ".no-session", "that the session is closed");
  same((await page.context().cookies()).length, 0, "cookies after the end");
} catch (err) {
  want(false, err.stack);
}
await finish();
