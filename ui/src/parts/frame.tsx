import type { ComponentType } from "preact";
import { call } from "../api/call";
import { Failure } from "./bits";
import { useLoad } from "../state/load";
import { foundAgain, leaving, lostSince, sessionOver } from "../state/connection";
import { href, place, project } from "../state/route";
import { barred, open, projects, self, signOut } from "../state/who";
import { Admission } from "../screens/admission";
import { Fleet } from "../screens/fleet";
import { Live } from "../screens/live";
import { Node } from "../screens/node";
import { Nodes } from "../screens/nodes";
import { Policies } from "../screens/policies";
import { Policy } from "../screens/policy";
import { Time } from "../screens/time";
import { Workers } from "../screens/workers";
import { Keys } from "./keys";
import { Command } from "./command";
import { Search } from "./search";

interface View {
  name: string;
  title: string;
  key: string; // after g
  list: ComponentType;
  one?: ComponentType<{ name: string }>;
}

/** The views, in the order of the menu. */
export const views: View[] = [
  { name: "fleet", title: "Fleet", key: "f", list: Fleet },
  { name: "policies", title: "Policies", key: "p", list: Policies, one: Policy },
  { name: "nodes", title: "Nodes", key: "n", list: Nodes, one: Node },
  { name: "live", title: "Live", key: "l", list: Live },
  { name: "time", title: "Time", key: "t", list: Time },
  { name: "admission", title: "Admission", key: "a", list: Admission },
  { name: "workers", title: "Workers", key: "w", list: Workers },
];

export function Frame() {
  if (sessionOver.value) return <NoSession why={sessionOver.value} />;
  const { view, name } = place.value;
  const shown = views.find((v) => v.name === view);
  document.title = `${name || shown?.title || "Not found"} · Edict`;
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <a class="brand" href={href("fleet")}><Mark /> Edict</a>
        <Search />
        <Who />
      </header>
      <nav class="menu" aria-label="Views">
        {views.map((v) => (
          <a key={v.name} href={href(v.name)} aria-current={v.name === view ? "page" : undefined}>{v.title}</a>
        ))}
      </nav>
      <main id="main" tabIndex={-1} aria-label={name || shown?.title}>
        <Connection />
        {self.value === null ? barred.value ? <Failure error={barred.value} /> : <div class="waiting" aria-busy="true" /> : <Shown of={shown} name={name} />}
      </main>
      <Keys />
    </>
  );
}

function Shown({ of, name }: { of: View | undefined; name: string }) {
  if (!of || (name && !of.one)) return <section class="empty"><h1>There is no such view</h1><p><a href={href("fleet")}>Go to the fleet</a></p></section>;
  const One = of.one;
  return name && One ? <One key={`${project.value} ${name}`} name={name} /> : <of.list key={project.value} />;
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark" />
      <path d="M9 9h14M9 16h9M9 23h14" class="mark-lines" />
    </svg>
  );
}

function Who() {
  const many = projects.value.length > 1;
  return (
    <div class="who">
      {many && (
        <label class="project">
          <span class="unseen">Project</span>
          <select value={project.value} onChange={(e) => location.assign(`/ui/fleet?project=${encodeURIComponent(e.currentTarget.value)}`)}>
            {projects.value.map((p) => <option key={p} value={p}>{p}</option>)}
          </select>
        </label>
      )}
      {self.value && <span title={open.value ? "Access is not configured: whoever reaches this address may do anything" : self.value.relations.join("\n")}>{open.value ? "no access control" : self.value.id}</span>}
      {self.value && !open.value && <button type="button" disabled={leaving.value} onClick={signOut}>Sign out</button>}
    </div>
  );
}

// Connection says that the plane does not answer, and that it does again. It lies over the
// page, so that nothing moves.
function Connection() {
  const lost = lostSince.value !== null;
  return (
    <div class="connection" role="status" data-state={lost ? "lost" : foundAgain.value ? "found" : "fine"}>
      {lost && leaving.value ? "You are still signed in: only the plane can end the session, and it does not answer. Leave this page open: it goes on trying."
        : lost ? "The plane does not answer. What is shown is from before; the page tries again by itself." : foundAgain.value ? "Connected again." : ""}
    </div>
  );
}

// NoSession says how to get one. Until it is known whether people sign in somewhere, nothing
// is said of it, so nothing moves.
function NoSession({ why }: { why: string }) {
  const where = useLoad("sign in", (signal) => call("getSignIn", {}, signal));
  if (!where.data && !where.error) return <main class="no-session" id="main" aria-busy="true" />;
  const { issuer, path } = where.data ?? {};
  return (
    <main class="no-session" id="main">
      <Mark />
      <h1>No session</h1>
      <p>{why}</p>
      {issuer && path && (
        <>
          <a class="button primary" href={`${path}?view=${encodeURIComponent(location.pathname + location.search)}`}>Sign in</a>
          <p class="muted">at {new URL(issuer).host}</p>
        </>
      )}
      <p>{issuer ? "Or have the command line open one. This" : "This"} prints a link that opens one. It works once, within a minute:</p>
      <Command text={`edict ui --server ${location.origin} --token-file FILE`} />
    </main>
  );
}
