package policy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// Generators of values that obey every rule of the domain.

func anyID(t *rapid.T) uuid.UUID {
	id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	id[0] |= 1
	return id
}

func anyPrefix(t *rapid.T, size int) netip.Prefix {
	a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "address"))
	p, _ := a.Prefix(rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
	if p.Addr().Is4In6() {
		p = netip.MustParsePrefix("::/0")
	}
	return p
}

func anyRule(t *rapid.T) Rule {
	size := rapid.SampledFrom([]int{4, 16}).Draw(t, "family")
	r := Rule{
		Action:   rapid.SampledFrom([]Action{Allow, Deny, Log, Pass, Redirect}).Draw(t, "action"),
		Protocol: rapid.SampledFrom([]Protocol{TCP, UDP, SCTP, ICMP, Any}).Draw(t, "protocol"),
		Source:   anyPrefix(t, size), Destination: anyPrefix(t, size),
	}
	if rapid.IntRange(0, 3).Draw(t, "source") == 0 {
		r.Source, r.SourceSelector = netip.Prefix{}, anyExpr(t).Canonical()
	}
	if rapid.IntRange(0, 3).Draw(t, "destination") == 0 {
		r.Destination, r.DestinationSelector = netip.Prefix{}, anyExpr(t).Canonical()
	}
	if r.Action == Redirect {
		r.ProxyPort = rapid.Uint16Range(1, 65535).Draw(t, "proxy")
		r.ListenerPriority = rapid.Uint8Range(0, MaxListenerPriority).Draw(t, "listener")
	}
	if r.Action == Redirect || r.Action == Allow {
		r.Auth = rapid.SampledFrom([]Auth{"", AuthRequired, AuthDisabled}).Draw(t, "auth")
	}
	r.Direction = rapid.SampledFrom([]Direction{"", "", Ingress, Egress}).Draw(t, "direction")
	if r.Protocol.HasPorts() {
		r.Ports.From = rapid.Uint16Range(1, 65535).Draw(t, "from")
		r.Ports.To = rapid.Uint16Range(r.Ports.From, 65535).Draw(t, "to")
	}
	return r
}

var (
	anyKey   = rapid.SampledFrom([]string{"a", "b", "role", "env", "in", "notin", "acme:checkout/owner", "example.com/zone", "A_b.c-9"})
	anyValue = rapid.SampledFrom([]string{"", "a", "b", "web", "in", "v1.2_3-x", "0"})
)

func anyClause(t *rapid.T) Clause {
	c := Clause{Op: Op(rapid.IntRange(0, int(Absent)).Draw(t, "op")), Key: anyKey.Draw(t, "key")}
	switch c.Op {
	case Equal, NotEqual:
		c.Values = []string{anyValue.Draw(t, "value")}
	case In:
		values := rapid.SliceOfN(anyValue.Filter(func(s string) bool { return s != "" }), 1, 4).Draw(t, "values")
		slices.Sort(values)
		c.Values = slices.Compact(values)
	}
	return c
}

func anyExpr(t *rapid.T) Expr {
	return rapid.SliceOfN(rapid.Custom(anyClause), 1, 5).Draw(t, "clauses")
}

func anyLabels(t *rapid.T) Labels {
	m := rapid.MapOf(anyKey, anyValue).Draw(t, "labels")
	l, err := NewLabels(m, "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func anyOrder(t *rapid.T) Order {
	o := Order{
		Tier:          rapid.SampledFrom([]Tier{"", Admin, Normal, Baseline}).Draw(t, "tier"),
		NoDefaultDeny: rapid.Bool().Draw(t, "no default deny"),
		Audit:         rapid.Bool().Draw(t, "audit"),
	}
	if rapid.Bool().Draw(t, "prioritised") {
		o.Priority = Priority{rapid.Uint32Range(0, MaxPriority).Draw(t, "priority"), true}
	}
	return o
}

func anyEvent(t *rapid.T) Event {
	id, project := anyID(t), anyID(t)
	node := NodeID(rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "node"))
	switch rapid.IntRange(0, 10).Draw(t, "type") {
	case 6:
		return RevisionStaged{id, project, anyID(t), anyRevision(t)}
	case 7:
		waves := rapid.SliceOfN(rapid.Custom(anyExpr), 0, MaxWaves).Draw(t, "waves")
		if len(waves) == 0 {
			waves = nil
		}
		gate := Gate{rapid.Uint8Range(0, MaxPercent).Draw(t, "applied"), rapid.Uint8Range(0, MaxPercent).Draw(t, "refused"), rapid.Bool().Draw(t, "abort")}
		return RevisionPromoted{id, project, anyID(t), anyID(t), Promotion{waves, gate}}
	case 8:
		return WaveOpened{id, project, anyID(t), anyID(t), rapid.Uint8Range(1, MaxWaves+1).Draw(t, "wave"), rapid.Bool().Draw(t, "gated")}
	case 9:
		return RolloutStopped{id, project, anyID(t), anyID(t), rapid.Uint8Range(1, MaxWaves+1).Draw(t, "wave"), "1 of 3 \"nodes\""}
	case 10:
		return RolloutAborted{id, project, anyID(t), anyID(t), rapid.SampledFrom([]string{"", "not today"}).Draw(t, "reason")}
	case 4:
		return AdmissionPolicyUpdated{id, AdmissionPolicyID(node), anyExpected(t), rapid.SampledFrom([]string{"", "ana"}).Draw(t, "by"), anyAdmissionPolicy(t)}
	case 5:
		return AdmissionPolicyDeleted{id, AdmissionPolicyID(node), anyExpected(t)}
	case 0:
		return PolicyDeleted{id, project, anyID(t)}
	case 1:
		return NodeRemoved{id, project, node}
	case 2:
		addrs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return anyPrefix(t, rapid.SampledFrom([]int{4, 16}).Draw(t, "family")).Addr().String()
		}), 0, 4).Draw(t, "addresses")
		f, err := DecodeFacts(addressesJSON(addrs))
		if err != nil {
			t.Fatal(err)
		}
		return NodeUpdated{id, project, node, anyLabels(t), f.Addresses}
	}
	return RevisionCreated{
		ID: id, Project: project, Policy: anyID(t), Slug: rapid.StringMatching(`[a-z][a-z0-9-]{0,63}`).Draw(t, "slug"),
		DisplayName: rapid.SampledFrom([]string{"", "Web", "Ünï \"quoted\" <b>\u2028\U0001f600"}).Draw(t, "name"),
		Revision:    anyRevision(t),
	}
}

func anyRevision(t *rapid.T) Revision {
	r := Revision{
		ID: anyID(t), Selector: Selector{anyExpr(t), anyExpr(t)}, Order: anyOrder(t),
		Rules:     rapid.SliceOfN(rapid.Custom(anyRule), 1, 5).Draw(t, "rules"),
		CreatedAt: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
		CreatedBy: rapid.SampledFrom([]string{"", "ann", "a\tb\\"}).Draw(t, "by"),
	}
	if rapid.Bool().Draw(t, "later") {
		r.Parent, r.CorrelationID = anyID(t), "c-1"
	}
	return r
}

// anyExpected stays below what a float64 keeps: a test prints events by way of any.
func anyExpected(t *rapid.T) *uint64 {
	return rapid.Ptr(rapid.Uint64Max(1<<53), true).Draw(t, "expected")
}

func anyAdmissionPolicy(t *rapid.T) AdmissionPolicy {
	p := AdmissionPolicy{
		Name:        rapid.SampledFrom([]string{"a", "Kein \"Name\"", "政策"}).Draw(t, "name"),
		Description: rapid.SampledFrom([]string{"", "two\nlines"}).Draw(t, "description"),
		Level:       rapid.SampledFrom(Levels).Draw(t, "level"),
		ServiceType: rapid.SampledFrom([]string{"", "vm"}).Draw(t, "service type"),
		Priority:    rapid.Int32Min(0).Draw(t, "priority"),
		Disabled:    rapid.Bool().Draw(t, "disabled"),
		Mode:        rapid.SampledFrom([]Mode{Enforce, Shadow}).Draw(t, "mode"),
		Rego:        "package a\n\nmain := {\"rejected\": false}\n",
	}
	if rapid.Bool().Draw(t, "labelled") {
		p.Labels = map[string]string{"tier": "gold", "a/b": ""}
	}
	if p.Level != Global {
		p.Tenant = rapid.SampledFrom([]string{"", "acme"}).Draw(t, "tenant")
	}
	if p.Level == User {
		p.User = rapid.SampledFrom([]string{"", "ana"}).Draw(t, "user")
	}
	if rapid.Bool().Draw(t, "tested") {
		p.TestCases = []jsontext.Value{jsontext.Value(`{"name":"one"}`), jsontext.Value(`{}`)}
	}
	return p
}
