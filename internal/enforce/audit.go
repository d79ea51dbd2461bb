//go:build linux

package enforce

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// AuditTableName is the table that counts what policies in audit mode would deny. It
// denies nothing itself.
const AuditTableName = "edict_audit"

// auditPriority is right behind the filter: what is denied in force is not met here,
// and ports and addresses are still those of the flow that was asked for.
const auditPriority = filterPriority + 1

var auditStages = []stage{
	{
		name: "egress", direction: datapath.Egress,
		hook:    hook{knftables.FilterType, knftables.OutputHook, auditPriority, knftables.AcceptPolicy},
		before:  []string{`oifname "lo" accept`, fmt.Sprintf("meta mark %#08x accept", AgentMark), replies, related, neighbours},
		verdict: func(e *datapath.Entry) string { return counted(datapath.Egress, e) },
	},
	{
		name: "ingress", direction: datapath.Ingress,
		hook:   hook{knftables.FilterType, knftables.PreroutingHook, auditPriority, knftables.AcceptPolicy},
		before: []string{`iifname "lo" accept`, elsewhere},
		// What was translated may have been looked up before: it would be counted twice.
		arrived: &arrived{auditPriority, knftables.AcceptPolicy, []string{toMany, inVRF}},
		verdict: func(e *datapath.Entry) string { return counted(datapath.Ingress, e) },
	},
}

// counted counts what a filter would drop, and lets it go on.
func counted(d datapath.Direction, e *datapath.Entry) string {
	if filtered(e) != "drop" {
		return "accept"
	}
	return "goto " + denied(d, e)
}

// denied names the counter, and the chain that counts, of what an entry denies; nil:
// of what none allows.
func denied(d datapath.Direction, e *datapath.Entry) string {
	who := counterOfNone
	if e != nil {
		who = strings.ReplaceAll(e.Rule.Policy, "-", "")
	}
	return d.String() + "_denied_" + cmp.Or(who, counterOfNone)
}

const counterOfNone = "by_default"

// RenderAudit is the ruleset that counts what the table denies, by the policy whose
// rule does. The table is that of a node as it would be if its policies in audit
// mode were in force.
func RenderAudit(t *Table) *Ruleset {
	owners, r := t.owners(), &Ruleset{}
	for _, s := range auditStages {
		(&renderer{Ruleset: r, stage: s, known: map[string]bool{}}).render(t, owners)
		names := map[string]bool{denied(s.direction, nil): true}
		for i := range t.Entries {
			if e := &t.Entries[i]; e.Direction == s.direction && e.Verdict == datapath.Deny {
				names[denied(s.direction, e)] = true
			}
		}
		for name := range maps.Keys(names) {
			r.counters = append(r.counters, name)
			r.chains = append(r.chains, &chain{name: name, rules: []string{"counter name " + name + " accept"}})
		}
	}
	r.sort()
	return r
}

// Denied is what was counted as the kernel was last seen, of policies that would have
// denied something, by id; a Nil policy stands for what no rule would have allowed.
func (n *Nftables) Denied() []policy.AuditCount {
	if n.held == nil {
		return nil
	}
	by := map[uuid.UUID]*policy.AuditCount{}
	for name, packets := range n.listed.Counters {
		direction, who, _ := strings.Cut(name, "_denied_")
		id, err := uuid.Parse(who)
		if packets == 0 || err != nil && who != counterOfNone {
			continue
		}
		c := by[id]
		if c == nil {
			c = &policy.AuditCount{Policy: id}
			by[id] = c
		}
		if direction == datapath.Egress.String() {
			c.Egress = packets
		} else {
			c.Ingress = packets
		}
	}
	return slices.SortedFunc(func(yield func(policy.AuditCount) bool) {
		for _, c := range by {
			if !yield(*c) {
				return
			}
		}
	}, func(a, b policy.AuditCount) int { return strings.Compare(a.Policy.String(), b.Policy.String()) })
}
