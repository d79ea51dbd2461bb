package attacks

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// rights are what docs/access.md says that somebody may publish and hear over NATS.
func rights(who string) (publish, hear []string) {
	log := "edict.log." + AttackerProject
	switch who {
	case "attacker":
		return []string{"edict.replay.node." + AttackerNode, "edict.report.node." + AttackerNode},
			[]string{"edict.node." + AttackerNode + ".>", "_INBOX." + AttackerNode + ".>"}
	case "mallory":
		return []string{log + ".node.*", log + ".artifact.*", log + ".policy.*"}, []string{"_INBOX.mallory.>"}
	}
	return []string{log + ".node.*", log + ".artifact.*"}, []string{"_INBOX.operator.>"}
}

// covers reports whether all that a subject names is named by a filter.
func covers(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, token := range f {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || s[i] == ">":
			return false
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}

// words are what subjects are made of at random.
func (p *Plane) words() []string {
	return []string{
		"edict", "node", "live", "log", "replay", "report", "rejected", "chain", "access", "admission", "policy", "artifact", "key", "mark",
		VictimProject, AttackerProject, VictimNode, AttackerNode, p.Policy, "root", "mallory", "alice", "state", "x", "1", "_INBOX", "$JS", "API", "STREAM",
		"CONSUMER", "MSG", "GET", "DIRECT", "NEXT", "CREATE", "PURGE", "DELETE", "EDICT_LOG", "EDICT_CHAIN", "EDICT_REJECTED", "KV_EDICT_META", "$KV", "EDICT_META",
		"$SYS", "REQ", "ACCOUNT", "SERVER", "PING", "$SRV", "$O", "_R_", "$JSC", "$NRG", "ACK", "FC",
	}
}

// subject makes one at random: often one that is right in all but a token.
func (p *Plane) subject(r *rand.Rand, own []string, wild bool) string {
	words := p.words()
	if wild {
		words = append(words, "*", ">", "*")
	}
	pick := func() string { return words[r.IntN(len(words))] }
	var tokens []string
	if r.IntN(2) == 0 {
		tokens = strings.Split(own[r.IntN(len(own))], ".")
		tokens[r.IntN(len(tokens))] = pick()
	} else {
		for range 1 + r.IntN(6) {
			tokens = append(tokens, pick())
		}
	}
	for i, token := range tokens {
		if token == "*" && !wild || token == ">" && (!wild || i < len(tokens)-1) {
			tokens[i] = "x"
		}
	}
	return strings.Join(tokens, ".")
}

// Random tries n things that nobody thought of, drawn from a seed: to publish and to
// hear where one has no right to, events of mallory's with headers at random, and
// requests for what is the victim's in any mixture of places, methods and headers.
func (p *Plane) Random(t testing.TB, seed uint64, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0x61747461636b)) //nolint:gosec // to do it again
	guests := []string{"attacker", "mallory", "operator"}
	conns := map[string]*nats.Conn{}
	for _, who := range guests {
		nc, err := p.Connect(t, who)
		require.NoError(t, err)
		conns[who] = nc
	}
	ops, all := p.operations(t), forged(uuid.New())
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for range n {
		p.tried++
		who := guests[r.IntN(len(guests))]
		publish, hear := rights(who)
		switch r.IntN(8) {
		case 0, 1, 2:
			p.randomPublish(t, conns[who], who, p.subject(r, publish, false), publish)
		case 3, 4, 5:
			p.randomHear(t, conns[who], who, p.subject(r, hear, true), hear)
		case 6:
			headers := map[string]string{}
			for range 1 + r.IntN(4) {
				name := names[r.IntN(len(names))]
				headers[name] = all[name][r.IntN(len(all[name]))]
			}
			p.forge(t, conns["mallory"], headers)
		default:
			p.randomRequest(t, r, ops)
		}
	}
}

func (p *Plane) randomPublish(t testing.TB, nc *nats.Conn, who, subject string, own []string) {
	t.Helper()
	if slices.ContainsFunc(own, func(filter string) bool { return covers(filter, subject) }) {
		return
	}
	require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: nc.NewInbox(), Data: []byte(`{}`)}))
	if !denied(t, nc, subject) {
		p.allowed(t, who, "publish on %s", subject)
	}
}

func (p *Plane) randomHear(t testing.TB, nc *nats.Conn, who, subject string, own []string) {
	t.Helper()
	if slices.ContainsFunc(own, func(filter string) bool { return covers(filter, subject) }) {
		return
	}
	sub, err := nc.SubscribeSync(subject)
	require.NoError(t, err, subject)
	if !denied(t, nc, subject) {
		p.allowed(t, who, "hear %s", subject)
	}
	_ = sub.Unsubscribe() // a refused one is none
}

// randomRequest asks for the victim's by a mixture of its names and the attacker's.
func (p *Plane) randomRequest(t testing.TB, r *rand.Rand, ops []described) {
	t.Helper()
	op := ops[r.IntN(len(ops))]
	names := p.places()
	if names["project"] = VictimProject; r.IntN(2) == 0 {
		names["project"] = AttackerProject
	}
	whoes := []string{"nobody", "attacker", "mallory", "reader"}
	who := whoes[r.IntN(len(whoes))]
	path := fill(op.pattern, names)
	if path == fill(op.pattern, unknown()) || may(who, op.needs) {
		return
	}
	headers := [][]string{
		{"X-Edict-Principal", "root"},
		{"X-Forwarded-User", "root"},
		{"Authorization", "Basic cm9vdDo="},
		{"X-HTTP-Method-Override", "GET"},
		{"Idempotency-Key", "deploy-42"},
		{"X-Correlation-Id", "c"},
		{"If-Match", "*"},
		{"Last-Event-ID", "0"},
		{"X-Original-URL", "/livez"},
		{"Forwarded", "for=127.0.0.1"},
	}[r.IntN(10)]
	methods := []string{op.method, op.method, op.method, http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodPost}
	method := methods[r.IntN(len(methods))]
	status, answer := p.Ask(t, who, method, path, body(strings.ToLower(method)), headers...)
	if status < 300 && (names["project"] == VictimProject && strings.Contains(op.pattern, "{project}") || p.tellsOf(string(answer))) {
		t.Errorf("%s: %s %s, with %s: %d %.300s", who, method, path, headers, status, answer)
	}
}

// tellsOf reports whether an answer names the victim's policy. A subject of the
// attackers' own project that ends in its id does not count: they sent to it
// themselves, and the audit of their project says so.
func (p *Plane) tellsOf(answer string) bool {
	return strings.Contains(strings.ReplaceAll(answer, "edict.log."+AttackerProject+".policy."+p.Policy, ""), p.Policy)
}
