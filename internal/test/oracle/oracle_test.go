package oracle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
)

const (
	project = "00000000-0000-4000-8000-000000000000"
	other   = "00000000-0000-4000-8000-000000000001"
	first   = "01900000-0000-7000-8000-00000000000a"
	second  = "01900000-0000-7000-8000-000000000009" // sorts before first
)

// The golden values below were made with a text editor and openssl, without
// this package.
const (
	webPayload      = `[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"icmp","action":"allow"},{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":80,"to":80},"action":"allow"},{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":443,"to":443},"action":"allow"},{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":443,"to":443},"action":"deny"},{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":443,"to":8443},"action":"allow"},{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":5432,"to":5432},"action":"allow"},{"source_cidr":"2001:db8::/32","destination_cidr":"::/0","protocol":"any","action":"log"},{"source_cidr":"9.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"udp","ports":{"from":53,"to":53},"action":"allow"}]`
	webFingerprint  = "t6w/QRSLpNjvEWMF/b4nm5s3nNEZNU8IEH8Ja+6QbOA="
	denyPayload     = `[{"source_cidr":"0.0.0.0/0","destination_cidr":"192.168.1.7/32","protocol":"any","action":"deny"}]`
	denyFingerprint = "TzS69R8Wv/XLWmqMm0Vt9Clf81HIhd1rNQouBFZ7nXA="
	bothFingerprint = "/E1589JX5TiuwwFKbVcHZtMCafWrPunKJlYq8VldfCA=" // sha256(denyPayload || webPayload)
)

// webRules in an author's order, one of them written twice.
const webRules = `[
	{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}},
	{"action":"log","protocol":"any","source_cidr":"2001:0DB8::/32","destination_cidr":"::/0"},
	{"action":"allow","protocol":"udp","source_cidr":"9.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":53,"to":53}},
	{"action":"deny","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":443,"to":443}},
	{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":443,"to":8443}},
	{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":443,"to":443}},
	{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":80,"to":80}},
	{"action":"allow","protocol":"icmp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16"},
	{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":443,"to":443}}
]`

func created(project, policy, revision, source, destination, rules string) string {
	return `{"type":"policy_revision_created","project_id":"` + project + `","policy_id":"` + policy + `","slug":"x","revision":{"id":"` +
		revision + `","selector":{"source":"` + source + `","destination":"` + destination + `"},"rules":` + rules + `}}`
}

func updated(project, node, labels string) string {
	return `{"type":"node_updated","project_id":"` + project + `","node_id":"` + node + `","labels":` + labels + `,"addresses":[]}`
}

func fold(t *testing.T, p *oracle.Plane, events ...string) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, p.Apply([]byte(e)))
	}
}

func TestNothingHashesToTheEmptyFingerprint(t *testing.T) {
	payload, err := oracle.Payload(nil)
	require.NoError(t, err)
	require.Equal(t, "[]", payload)
	require.Equal(t, oracle.EmptyFingerprint, oracle.Fingerprint(payload))
}

func TestAStateIsWhatAPersonWorkedOutByHand(t *testing.T) {
	var p oracle.Plane
	denyAll := `[{"action":"deny","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"192.168.1.7/32"}]`
	fold(t, &p,
		created(project, first, "r1", "role=web", "role=db", webRules),
		created(project, second, "r2", "env in (prod, stage)", "nobody", denyAll),
		created(other, "03", "r3", "role", "role", denyAll),
		updated(project, "n1", `{"role":"db"}`),
		updated(project, "n2", `{"role":"web","env":"prod"}`),
		updated(project, "n3", `{"role":"cache"}`),
	)
	web := oracle.Row{Policy: first, Revision: "r1", Fingerprint: webFingerprint, Payload: webPayload, Said: webPayload}
	deny := oracle.Row{Policy: second, Revision: "r2", Fingerprint: denyFingerprint, Payload: denyPayload, Said: denyPayload}
	require.Equal(t, []oracle.Row{web}, p.Rows("n1"))
	require.Equal(t, []oracle.Row{deny, web}, p.Rows("n2"))
	require.Empty(t, p.Rows("n3"))

	require.Equal(t, `{"revision_id":"r1","fingerprint":"`+webFingerprint+`","rules":`+webPayload+`}`, p.Block("n1"))
	require.Equal(t, `{"revision_id":"r2","fingerprint":"`+bothFingerprint+`","rules":`+
		denyPayload[:len(denyPayload)-1]+","+webPayload[1:]+`}`, p.Block("n2"))
	state, ok := p.State("n3")
	require.True(t, ok)
	require.Equal(t, `{"peers":[],"reachability":null,"policy":null,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`, state)
	_, ok = p.State("n4")
	require.False(t, ok)
	require.Equal(t, []string{"n1", "n2", "n3"}, p.Nodes())
}

func TestTheAnswerFollowsThePresentFactsAlone(t *testing.T) {
	rule := `[{"action":"deny","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"192.168.1.7/32"}]`
	var p oracle.Plane
	fold(t, &p,
		updated(project, "n1", `{"role":"db"}`),
		created(project, first, "r1", "role", "role", rule))
	require.Len(t, p.Rows("n1"), 1)
	fold(t, &p, created(project, first, "r2", "role=web", "role=web", rule))
	require.Empty(t, p.Rows("n1"), "a narrowed selector lets go of the node")
	fold(t, &p, updated(project, "n1", `{"role":"web"}`))
	require.Equal(t, "r2", p.Rows("n1")[0].Revision)
	fold(t, &p, `{"type":"policy_deleted","policy_id":"`+first+`"}`)
	require.Equal(t, "null", p.Block("n1"))
	fold(t, &p, `{"type":"node_removed","node_id":"n1"}`)
	require.Empty(t, p.Nodes())
}

func TestSelectors(t *testing.T) {
	labels := `{"env":"prod","app.example.com/tier":"web","empty":""}`
	for _, c := range []struct {
		says, selector string
		want           bool
	}{
		{"equal", "env=prod", true},
		{"equal, another value", "env=stage", false},
		{"equal, no such key", "zone=a", false},
		{"equal, a prefixed key", "app.example.com/tier=web", true},
		{"not equal, another value", "env!=stage", true},
		{"not equal, the value it has", "env!=prod", false},
		{"not equal holds without the key", "zone!=a", true},
		{"one of a list", "env in (stage, prod)", true},
		{"one of a list without spaces", "env in (stage,prod)", true},
		{"none of a list", "env in (stage,test)", false},
		{"a list and no such key", "zone in (a)", false},
		{"exists", "env", true},
		{"exists with an empty value", "empty", true},
		{"exists, no such key", "zone", false},
		{"absent", "!zone", true},
		{"absent, but there", "!env", false},
		{"all must hold", "env=prod,!zone,env in (a,prod)", true},
		{"one fails", "env=prod, zone", false},
	} {
		t.Run(c.says, func(t *testing.T) {
			rule := `[{"action":"deny","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"192.168.1.7/32"}]`
			for _, sides := range [][2]string{{c.selector, "nobody"}, {"nobody", c.selector}} {
				var p oracle.Plane
				fold(t, &p, updated(project, "n", labels), created(project, first, "r", sides[0], sides[1], rule))
				require.Equal(t, c.want, len(p.Rows("n")) == 1)
			}
		})
	}
}

func TestWhatItCannotReadIsAnError(t *testing.T) {
	rule := `[{"action":"deny","protocol":"any","source_cidr":"%","destination_cidr":"192.168.1.7/32"}]`
	good := `[{"action":"deny","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"192.168.1.7/32"}]`
	for says, e := range map[string]string{
		"not JSON":             "{",
		"an unknown type":      `{"type":"node_renamed"}`,
		"a bad prefix":         created(project, first, "r", "a", "b", rule),
		"host bits":            created(project, first, "r", "a", "b", `[{"source_cidr":"10.0.0.1/8","destination_cidr":"0.0.0.0/0"}]`),
		"a mapped prefix":      created(project, first, "r", "a", "b", `[{"source_cidr":"::ffff:10.0.0.0/104","destination_cidr":"::/0"}]`),
		"an empty side":        created(project, first, "r", "", "b", good),
		"a trailing comma":     created(project, first, "r", "a,", "b", good),
		"a list without end":   created(project, first, "r", "a", "k in (b", good),
		"an operator it lacks": created(project, first, "r", "a notin (b)", "b", good),
	} {
		t.Run(says, func(t *testing.T) {
			require.Error(t, new(oracle.Plane).Apply([]byte(e)))
		})
	}
}
