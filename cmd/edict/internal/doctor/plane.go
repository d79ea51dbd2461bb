package doctor

import (
	"bufio"
	"bytes"
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
		return refused("credentials", err)
	case self.Kind == "":
		return Finding{Check: "credentials", State: OK, Detail: "the plane asks nobody who they are"}
	}
	return Finding{Check: "credentials", State: OK, Detail: fmt.Sprintf("%s, a %s with %s", self.ID, self.Kind, cli.Counted(len(self.Relations), "relation"))}
}

// refused is a check whose question the plane did not answer.
func refused(check string, err error) Finding {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		return Finding{check, Failed, err.Error(), "edict probe livez"}
	}
	switch problem.Status {
	case http.StatusUnauthorized:
		return Finding{check, Failed, problem.Detail, "edict doctor --token-file FILE, or --cert and --key"}
	case http.StatusForbidden:
		return Finding{check, Skipped, problem.Detail, "edict access can-i read plane"}
	case http.StatusNotFound:
		return Finding{check, Skipped, problem.Detail, "edict doctor --admin-server URL"}
	}
	return Finding{check, Failed, problem.Detail, "edict errors " + problem.Code}
}

// remedies say what to look at for each of a worker's checks, but for those of its log.
var remedies = map[string]string{
	"projection": "edict status -w: does applied grow?",
	"relay":      "edict worker list",
	"storage":    "df -h, on the plane; edict log compact --keep 90d",
	"chain":      "edict log verify",
	"writes":     "edict status; docs/recovery.md",
}

// remedy is what to look at for a check that failed.
func (p Patient) remedy(check string) string {
	switch {
	case check != "log" && check != "nats":
		return remedies[check]
	case p.systemd():
		return "edict status; systemctl status nats-server, where the log is"
	}
	return "edict status; df -h, where the log is, and whether its nats-server runs"
}

// readiness is what the worker that answers says of itself.
func (p Patient) readiness(ctx context.Context) Finding {
	ready, err := p.Client.Ready(ctx)
	if err == nil {
		return Finding{Check: "readiness", State: OK, Detail: cli.Counted(len(ready.Checks), "check") + " of the worker"}
	}
	var problem *client.Problem
	if !errors.As(err, &problem) || len(problem.Checks) == 0 {
		return refused("readiness", err)
	}
	f := Finding{Check: "readiness", State: Failed}
	var details []string
	for _, c := range problem.Checks {
		if c.Status != "failed" {
			continue
		}
		details = append(details, c.Name+": "+c.Detail)
		if f.Next == "" {
			f.Next = p.remedy(c.Name)
		}
	}
	f.Detail = strings.Join(details, "; ")
	return f
}

var buildInfo = regexp.MustCompile(`^edict_build_info\{.*\bversion="([^"]*)"`)

// version compares the plane's release with this program's.
func (p Patient) version(ctx context.Context) Finding {
	page, err := p.Client.Metrics(ctx)
	if err != nil {
		return refused("version", err)
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
		return []Finding{refused("status", err)}
	}
	return []Finding{workers(s), partitions(s), room(s.Log), durability(s), rejected(s), shares(s.Shares), nodes(s.Convergence)}
}

// behindAtMost is how many events a worker may be behind without a word.
const behindAtMost = 1000

func workers(s resource.Status) Finding {
	for _, w := range s.Workers {
		if w.Lag > behindAtMost {
			return Finding{"workers", Warning, fmt.Sprintf("%s is %s behind", w.Name, cli.Counted(w.Lag, "event")), "edict worker describe " + w.Name + " -w"}
		}
	}
	return Finding{Check: "workers", State: OK, Detail: fmt.Sprintf("%d, the log folded up to %d of %d", len(s.Workers), s.Applied, s.Head)}
}

func partitions(s resource.Status) Finding {
	nobodys := 0
	for _, part := range s.Partitions {
		if part.Publisher == "" {
			nobodys++
		}
	}
	if nobodys > 0 {
		return Finding{"publishing", Failed, fmt.Sprintf("nobody publishes to %d of %s", nobodys, cli.Counted(len(s.Partitions), "partition")), "edict worker list; edict serve --roles says who may"}
	}
	return Finding{Check: "publishing", State: OK, Detail: fmt.Sprintf("each of %s has its worker", cli.Counted(len(s.Partitions), "partition"))}
}

// fullSoon is how long before the log has no more room one wants to know.
const fullSoon = 30 * 24 * time.Hour

func room(l resource.LogStatus) Finding {
	const mib = 1 << 20
	detail := fmt.Sprintf("the log has %d MiB", l.Bytes/mib)
	if l.RoomBytes != nil {
		detail += fmt.Sprintf(", and room for %d more", *l.RoomBytes/mib)
	}
	if l.FullInSeconds != nil && *l.FullInSeconds < fullSoon.Seconds() {
		left := time.Duration(*l.FullInSeconds) * time.Second
		return Finding{"disk", Warning, fmt.Sprintf("%s: full in %.0f days", detail, left.Hours()/24), "edict log compact --keep 90d --archive DIR; edict project list says who writes"}
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

func rejected(s resource.Status) Finding {
	f := Finding{Check: "rejected", State: OK, Detail: "the fold refused " + cli.Counted(s.Rejected, "event")}
	if s.Rejected > 0 {
		f.Next = "edict status --rejected"
	}
	return f
}

func shares(s resource.Shares) Finding {
	if s.Over > 0 {
		return Finding{"projects", Warning, fmt.Sprintf("%d have had their share of the log; their writes are refused", s.Over), "edict project list"}
	}
	return Finding{Check: "projects", State: OK, Detail: "none is over its share of the log"}
}

// CountByState counts nodes by where they stand, as people read it.
func CountByState(b resource.ByState) string {
	return fmt.Sprintf("%d of %d applied, %d lagging, %d refused, %d silent", b.Applied, b.Nodes, b.Lagging, b.Refused, b.Silent)
}

func nodes(c *resource.Convergence) Finding {
	if c == nil {
		return Finding{Check: "nodes", State: Skipped, Detail: "the worker has not read yet what nodes reported"}
	}
	detail := fmt.Sprintf("%d of %s applied what they must", c.Applied, cli.Counted(c.Desired, "node"))
	if by := c.ByState; by != nil {
		detail = CountByState(*by)
	}
	switch {
	case c.NotApplied.Refused > 0:
		return Finding{"nodes", Warning, fmt.Sprintf("%s; %d refuse what they were sent", detail, c.NotApplied.Refused), "edict node list --all-projects --state refused"}
	case c.Reported == 0 && c.Applied < c.Desired: // on a plane of nodes that never report that is so for ever
		return Finding{"nodes", Skipped, detail + ": no node has reported yet, so nothing is judged", "edict node list --all-projects --state silent; edict agent status, on a node"}
	case c.Applied < c.Desired:
		return Finding{"nodes", Warning, detail, "edict node list --all-projects --state lagging,silent"}
	}
	return Finding{Check: "nodes", State: OK, Detail: detail}
}
