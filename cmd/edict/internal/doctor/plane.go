package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// caller is whom the plane takes this client for.
func (p Patient) caller(ctx context.Context) Finding {
	self, err := p.Client.Self(ctx)
	switch {
	case err != nil:
		return p.refused("credentials", err)
	case self.Kind == "":
		return Finding{Check: "credentials", State: OK, Detail: "the plane asks nobody who they are"}
	}
	return Finding{Check: "credentials", State: OK, Detail: fmt.Sprintf("%s, a %s with %s", self.ID, self.Kind, cli.Counted(len(self.Relations), "relation"))}
}

// refused is a check whose question the plane did not answer.
func (p Patient) refused(check string, err error) Finding {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		return Finding{check, Failed, err.Error(), p.asks("edict probe livez --server "+quoted(p.Server.Redacted()), "server", "context", "admin-server")}
	}
	switch problem.Status {
	case http.StatusUnauthorized:
		return Finding{check, Failed, problem.Detail, p.asks("edict doctor", "token-file", "cert", "key") + " --token-file FILE, or --cert and --key"}
	case http.StatusForbidden:
		return Finding{check, Skipped, problem.Detail, p.asks("edict access can-i read plane")}
	case http.StatusNotFound:
		return Finding{check, Skipped, problem.Detail, p.asks("edict doctor", "admin-server") + " --admin-server URL"}
	}
	return Finding{check, Failed, problem.Detail, "edict errors " + problem.Code}
}

// remedy is what to look at for a check of a worker that failed.
func (p Patient) remedy(check string) string {
	switch check {
	case "projection":
		return p.asks("edict status -w") + ": does what is folded grow?"
	case "relay":
		return p.asks("edict worker list")
	case "storage":
		return "df -h, on the plane; " + p.asks("edict log compact --keep 90d")
	case "chain":
		return p.asks("edict log verify")
	case "origin":
		return p.asks("edict log verify") + "; docs/recovery.md"
	case "settings":
		return "nats stream edit EDICT_LOG; docs/recovery.md"
	case "replicas":
		return "nats stream info EDICT_LOG; docs/recovery.md"
	case "writes":
		return p.asks("edict status") + "; docs/recovery.md"
	case "log", "nats":
		if p.systemd() {
			return p.asks("edict status") + "; systemctl status nats-server, where the log is"
		}
		return p.asks("edict status") + "; df -h, where the log is, and whether its nats-server runs"
	}
	return ""
}

// readiness is what the worker that answers says of itself.
func (p Patient) readiness(ctx context.Context) Finding {
	ready, err := p.Client.Ready(ctx)
	if err == nil {
		if f := p.reported("info", ready.Checks); f.Detail != "" {
			f.State = Warning
			return f
		}
		return Finding{Check: "readiness", State: OK, Detail: cli.Counted(len(ready.Checks), "check") + " of the worker"}
	}
	var problem *client.Problem
	if !errors.As(err, &problem) || len(problem.Checks) == 0 {
		return p.refused("readiness", err)
	}
	f := p.reported("failed", problem.Checks)
	f.State = Failed
	return f
}

// reported is what checks of a status say that ask for something, and what to look at for the first.
func (p Patient) reported(status string, checks []resource.Check) Finding {
	f := Finding{Check: "readiness"}
	var details []string
	for _, c := range checks {
		next := p.remedy(c.Name)
		if c.Status != status || status == "info" && next == "" {
			continue
		}
		details = append(details, c.Name+": "+c.Detail)
		f.Next = cmp.Or(f.Next, next)
	}
	f.Detail = strings.Join(details, "; ")
	return f
}

var buildInfo = regexp.MustCompile(`^edict_build_info\{.*\bversion="([^"]*)"`)

// version compares the plane's release with this program's.
func (p Patient) version(ctx context.Context) Finding {
	page, err := p.Client.Metrics(ctx)
	if err != nil {
		return p.refused("version", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		m := buildInfo.FindSubmatch(lines.Bytes())
		switch {
		case m == nil:
			continue
		case string(m[1]) == p.Version:
			return Finding{Check: "version", State: OK, Detail: p.Version + ", here and there"}
		}
		return Finding{"version", Warning, fmt.Sprintf("%s here, %s there", p.Version, m[1]), "edict version -o json; install the plane's release here"}
	}
	return Finding{Check: "version", State: Skipped, Detail: "the plane does not say which release it is"}
}

// status is how the plane does as a whole.
func (p Patient) status(ctx context.Context) []Finding {
	s, err := p.Client.Status(ctx, false)
	if err != nil {
		return []Finding{p.refused("status", err)}
	}
	return []Finding{p.workers(s), p.partitions(s), p.room(s.Log), durability(s), p.rejected(s), p.shares(s.Shares), p.nodes(s.Convergence)}
}

// behindAtMost is how many events a worker may be behind without a word.
const behindAtMost = 1000

func (p Patient) workers(s resource.Status) Finding {
	for _, w := range s.Workers {
		if w.Lag > behindAtMost {
			return Finding{"workers", Warning, fmt.Sprintf("%s is %s behind", w.Name, cli.Counted(w.Lag, "event")), p.asks("edict worker describe " + w.Name + " -w")}
		}
	}
	if f, found := p.namesakes(s.Workers); found {
		return f
	}
	return Finding{Check: "workers", State: OK, Detail: fmt.Sprintf("%d, the log folded up to %d of %d", len(s.Workers), s.Applied, s.Head)}
}

// forgotten is after what time a worker that was killed is listed no more, unless the plane has a
// longer --lease-ttl.
const forgotten = 30 * time.Second

// namesakes are live workers of one name. One that was killed and came back without its data is
// listed twice until its earlier start is forgotten.
func (p Patient) namesakes(all []resource.Worker) (f Finding, found bool) {
	newest := map[string]time.Time{} // start of a name
	count := map[string]int{}
	for _, w := range all {
		count[w.Name]++
		if w.Started.After(newest[w.Name]) {
			newest[w.Name] = w.Started
		}
	}
	for _, w := range all {
		switch {
		case count[w.Name] < 2:
		case p.Now().Sub(newest[w.Name]) >= forgotten:
			return Finding{
				"workers", Warning, fmt.Sprintf("%d live workers have the name %s, and people cannot tell them apart", count[w.Name], w.Name),
				p.asks("edict worker list -o wide") + "; edict serve --name NAME, another one for each",
			}, true
		default:
			f, found = Finding{
				"workers", Skipped, fmt.Sprintf("%s is listed twice, and was started only now: the plane may not have forgotten its earlier start", w.Name),
				p.asks("edict doctor") + ", in half a minute",
			}, true
		}
	}
	return f, found
}

func (p Patient) partitions(s resource.Status) Finding {
	nobodys := 0
	for _, part := range s.Partitions {
		if part.Publisher == "" {
			nobodys++
		}
	}
	if nobodys > 0 {
		return Finding{"publishing", Failed, fmt.Sprintf("nobody publishes to %d of %s", nobodys, cli.Counted(len(s.Partitions), "partition")), p.asks("edict worker list") + "; edict serve --roles says who may"}
	}
	return Finding{Check: "publishing", State: OK, Detail: fmt.Sprintf("each of %s has its worker", cli.Counted(len(s.Partitions), "partition"))}
}

// fullSoon is how long before the log has no more room one wants to know.
const fullSoon = 30 * 24 * time.Hour

func (p Patient) room(l resource.LogStatus) Finding {
	const mib = 1 << 20
	detail := fmt.Sprintf("the log has %d MiB", l.Bytes/mib)
	if l.RoomBytes != nil {
		detail += fmt.Sprintf(", and room for %d more", *l.RoomBytes/mib)
	}
	if l.RoomBytes != nil && *l.RoomBytes == 0 {
		return Finding{"disk", Failed, detail + ": writes are refused", p.remedy("storage")}
	}
	if l.FullInSeconds != nil && *l.FullInSeconds < fullSoon.Seconds() {
		left := time.Duration(*l.FullInSeconds) * time.Second
		return Finding{"disk", Warning, fmt.Sprintf("%s: full in %.0f days", detail, left.Hours()/24), p.asks("edict log compact --keep 90d --archive DIR") + "; " + p.asks("edict project list") + " says who writes"}
	}
	return Finding{Check: "disk", State: OK, Detail: detail}
}

func durability(s resource.Status) Finding {
	if s.Durability == "relaxed" {
		return Finding{"durability", Warning, "relaxed: a power cut may take writes that were acknowledged", "edict serve --durability strict, on the plane"}
	}
	if s.Durability == durabilityUnknown {
		return Finding{Check: "durability", State: Skipped, Detail: DurabilityText(s.Durability)}
	}
	return Finding{Check: "durability", State: OK, Detail: s.Durability}
}

const durabilityUnknown = "unknown"

// DurabilityText is what a plane says of its durability, and where that is nothing, why.
func DurabilityText(durability string) string {
	if durability == durabilityUnknown {
		return "unknown: a worker cannot see sync_interval of NATS servers elsewhere (deploy/README.md says what to set)"
	}
	return durability
}

func (p Patient) rejected(s resource.Status) Finding {
	f := Finding{Check: "rejected", State: OK, Detail: "the fold refused " + cli.Counted(s.Rejected, "event")}
	if s.Rejected > 0 {
		f.Next = p.asks("edict status --rejected")
	}
	return f
}

func (p Patient) shares(s resource.Shares) Finding {
	if s.Over > 0 {
		return Finding{"projects", Warning, fmt.Sprintf("%d have had their share of the log; their writes are refused", s.Over), p.asks("edict project list")}
	}
	for _, share := range s.Projects {
		if share.ShutOut != nil {
			return Finding{"projects", Warning, "the producers of " + share.Project + " are shut out over NATS for a while; they sent too much", p.asks("edict project list")}
		}
	}
	return Finding{Check: "projects", State: OK, Detail: "none is over its share of the log"}
}

// CountByState counts nodes by where they stand, as people read it.
func CountByState(b resource.ByState) string {
	return fmt.Sprintf("%d of %d applied, %d lagging, %d refused, %d silent", b.Applied, b.Nodes, b.Lagging, b.Refused, b.Silent)
}

func (p Patient) nodes(c *resource.Convergence) Finding {
	if c == nil {
		return Finding{Check: "nodes", State: Skipped, Detail: "the worker has not read yet what nodes reported"}
	}
	detail := fmt.Sprintf("%d of %s applied what they must", c.Applied, cli.Counted(c.Desired, "node"))
	if by := c.ByState; by != nil {
		detail = CountByState(*by)
	}
	switch {
	case c.NotApplied.Refused > 0:
		return Finding{"nodes", Warning, fmt.Sprintf("%s; %d refuse what they were sent", detail, c.NotApplied.Refused), p.asks("edict node list --all-projects --state refused")}
	case c.Reported == 0 && c.Applied < c.Desired: // on a plane of nodes that never report that is so for ever
		return Finding{"nodes", Skipped, detail + ": no node has reported yet, so nothing is judged", p.asks("edict node list --all-projects --state silent") + "; edict agent status, on a node"}
	case c.Applied < c.Desired:
		return Finding{"nodes", Warning, detail, p.asks("edict node list --all-projects --state lagging,silent")}
	}
	return Finding{Check: "nodes", State: OK, Detail: detail}
}
