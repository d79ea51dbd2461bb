package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/attacks"
)

// TestNoTenantHarmsAnother has nodes, producers and strangers try against each other
// what package attacks lists, on a plane that asks everybody for credentials. Each
// attempt is refused; afterwards the victim has what it had, and is served.
func TestNoTenantHarmsAnother(t *testing.T) {
	t.Parallel()
	p, victims := attacked(t)
	before := p.status("").Head
	state, _ := p.guardedState()

	own, err := victims.Connect(t, "attacker")
	require.NoError(t, err)
	allowed, err := own.SubscribeSync("edict.node." + attacks.AttackerNode + ".>")
	require.NoError(t, err)
	require.NoError(t, own.Flush())
	there, err := victims.Connect(t, "victim")
	require.NoError(t, err)
	heard, err := there.SubscribeSync("edict.node." + attacks.VictimNode + ".>")
	require.NoError(t, err)
	inbox, err := there.SubscribeSync("_INBOX.victim.>")
	require.NoError(t, err)
	require.NoError(t, there.Flush())

	victims.OverNATS(t)
	victims.OverHTTP(t)
	require.Equal(t, before, p.status("").Head, "the log has nothing of it")

	sent := victims.OverTheLog(t)
	require.True(t, waitFor(20*time.Second, func() bool { return p.status("").Rejected >= uint64(len(sent)) }), "all of it is judged")
	codes := p.codesAfter(before)
	require.Len(t, codes, len(sent))
	for _, s := range sent {
		if s.Seq == 0 { // its answer went elsewhere
			continue
		}
		require.NotEmpty(t, codes[s.Seq], "%s is accepted", s.What)
		if s.Code != "*" {
			require.Equal(t, s.Code, codes[s.Seq], s.What)
		}
	}
	after, _ := p.guardedState()
	require.Equal(t, state, after, "the victim has what it had")
	p.do("PATCH", "/v1/projects/"+attacks.VictimProject+"/policies/"+victims.Policy, map[string]any{"rules": rulesTo(444)}, 200)
	m, err := heard.NextMsg(20 * time.Second)
	require.NoError(t, err, "and hears what is new")
	require.Contains(t, string(m.Data), "444", "before anything else")
	for who, sub := range map[string]*nats.Subscription{"the attacker": allowed, "the victim's inbox": inbox} {
		n, _, err := sub.Pending()
		require.NoError(t, err)
		require.Zero(t, n, "%s heard what is not its own", who)
	}
	require.GreaterOrEqual(t, victims.Tried(), 280)
	t.Logf("%d attempts", victims.Tried())
}

var (
	attackRounds = flag.Int("attacks", 500, "attempts at random in TestTenantsForgeAndGuessInVain")
	attackSeed   = flag.Uint64("attacks.seed", 1, "what they are drawn from")
)

// TestTenantsForgeAndGuessInVain has them take the ids of others' writes, forge
// headers, send what was recorded again, ask for what nobody has, and try at random.
// What is appended by it is mallory's own, and says so; the victim has what it had.
func TestTenantsForgeAndGuessInVain(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", *attackSeed)
	p, x := attacked(t)
	there, err := x.Connect(t, "victim")
	require.NoError(t, err)
	heard, err := there.SubscribeSync("edict.node." + attacks.VictimNode + ".>")
	require.NoError(t, err)
	require.NoError(t, there.Flush())
	p.do("PATCH", "/v1/projects/"+attacks.VictimProject+"/policies/"+x.Policy, map[string]any{"rules": rulesTo(444)}, 200)
	live, err := heard.NextMsg(20 * time.Second)
	require.NoError(t, err)
	root, err := x.Connect(t, "root")
	require.NoError(t, err)
	recorded := append(theLog(t, root), attacks.Recorded{Subject: live.Subject, Header: live.Header, Body: live.Data})
	recorded = slices.DeleteFunc(recorded, func(r attacks.Recorded) bool { return strings.Contains(r.Subject, attacks.AttackerProject) })

	x.Collisions(t)
	p.announced()
	state, rulesets := p.guardedState()
	head := p.status("").Head
	pending, _, err := heard.Pending()
	require.NoError(t, err)

	x.Oracles(t)
	x.ReplayRequests(t)
	require.Equal(t, head, p.status("").Head, "the log has nothing of it")
	sent := x.Replays(t, recorded)
	require.NotEmpty(t, sent)
	last := sent[len(sent)-1].Seq
	require.True(t, waitFor(20*time.Second, func() bool { return p.status("").Applied >= last }))
	refused := p.codesAfter(head)
	for _, s := range sent {
		require.NotEmpty(t, refused[s.Seq], "%s is accepted", s.What)
	}
	x.ForgedHeaders(t, attacks.Foreseen("alice", attacks.VictimProject, "deploy-42", "put:"+attacks.VictimNode))
	x.Random(t, *attackSeed, *attackRounds)

	p.announced()
	again, rulesetsAgain := p.guardedState()
	require.Equal(t, state, again, "the victim has what it had")
	require.Equal(t, rulesets, rulesetsAgain)
	now, _, err := heard.Pending()
	require.NoError(t, err)
	require.Equal(t, pending, now, "and heard nothing of it")
	mallorysOwn(t, p, root, head)
	p.do("PUT", "/v1/projects/"+attacks.VictimProject+"/nodes/"+attacks.VictimNode, map[string]any{"labels": map[string]string{"role": "db"}}, 200)
	require.GreaterOrEqual(t, x.Tried(), 350+*attackRounds)
	t.Logf("%d attempts", x.Tried())
}

// theLog is all that stands in it, as somebody who recorded it has it.
func theLog(t *testing.T, root *nats.Conn) (all []attacks.Recorded) {
	t.Helper()
	for seq := 1; ; seq++ {
		m, err := root.Request("$JS.API.DIRECT.GET.EDICT_LOG", fmt.Appendf(nil, `{"seq":%d}`, seq), 10*time.Second)
		require.NoError(t, err)
		if m.Header.Get("Status") != "" {
			return all
		}
		r := attacks.Recorded{Subject: m.Header.Get("Nats-Subject"), Header: map[string][]string{}, Body: m.Data}
		for name, values := range m.Header {
			if !slices.Contains([]string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"}, name) {
				r.Header[name] = values
			}
		}
		all = append(all, r)
	}
}

// mallorysOwn looks at all that the log took above a sequence: it lacks nothing, and
// whatever its headers say, the audit has it as what somebody appended over NATS to
// the attacker's project.
func mallorysOwn(t *testing.T, p *process, root *nats.Conn, above uint64) {
	t.Helper()
	m, err := root.Request("$JS.API.STREAM.INFO.EDICT_LOG", nil, 10*time.Second)
	require.NoError(t, err)
	var info struct {
		State struct {
			Messages, Last uint64
			First          uint64 `json:"first_seq"`
			LastSeq        uint64 `json:"last_seq"`
			Deleted        int    `json:"num_deleted"`
		}
	}
	require.NoError(t, json.Unmarshal(m.Data, &info))
	require.Equal(t, info.State.LastSeq-info.State.First+1, info.State.Messages, "no header has the log drop anything")
	require.Greater(t, info.State.LastSeq, above)
	for after := above; after < info.State.LastSeq; {
		var page struct {
			Items []struct {
				Seq                               uint64
				Subject, Via, Principal, Rejected string
				Correlation                       string `json:"correlation_id"`
			}
		}
		require.NoError(t, json.Unmarshal(p.do("GET", fmt.Sprintf("/v1/audit?after=%d&limit=200", after), nil, 200), &page))
		require.NotEmpty(t, page.Items)
		for _, e := range page.Items {
			after = e.Seq
			require.Contains(t, e.Subject, "edict.log."+attacks.AttackerProject+".")
			require.Equal(t, "nats", e.Via, "event %d", e.Seq)
			require.Empty(t, e.Principal, "event %d", e.Seq)
			require.Empty(t, e.Correlation, "event %d", e.Seq)
		}
	}
}

func rulesTo(port int) []any {
	return []any{map[string]any{
		"action": "allow", "protocol": "tcp", "source_cidr": "10.0.0.0/8", "destination_cidr": "10.0.0.0/8", "ports": map[string]int{"from": port, "to": port},
	}}
}

// attacked is a plane with two tenants, driven by its administrator.
func attacked(t *testing.T) (*process, *attacks.Plane) {
	t.Helper()
	bin, err := edict()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "access.json")
	p := newProcess(t, bin, "--access", file, "--durability", "relaxed", "--rate", "0")
	token := func(name, kind string, relations ...string) string {
		args := []string{"access", "token", "create", name, "--kind", kind, "--file", file}
		for _, r := range relations {
			args = append(args, "--relation", r)
		}
		out, code := p.run(args...)
		require.Zero(t, code)
		return strings.TrimSpace(out)
	}
	p.token = token("root", "person", "plane#admin")
	x := &attacks.Plane{Tokens: map[string]string{}}
	for name, is := range attacks.Cast {
		x.Tokens[name] = token(name, is[0], is[1:]...)
	}
	x.Tokens["root"] = p.token
	p.tokenFile = filepath.Join(dir, "root.token")
	require.NoError(t, os.WriteFile(p.tokenFile, []byte(p.token), 0o600))
	p.start()
	x.HTTP, x.NATS = p.http, p.nats
	for project, node := range map[string]string{attacks.VictimProject: attacks.VictimNode, attacks.AttackerProject: attacks.AttackerNode} {
		p.do("PUT", "/v1/projects/"+project+"/nodes/"+node, map[string]any{"labels": map[string]string{"role": "web"}, "addresses": []string{}}, 201)
	}
	var made struct {
		ID   string
		Head struct{ ID string }
	}
	require.NoError(t, json.Unmarshal(p.do("POST", "/v1/projects/"+attacks.VictimProject+"/policies", map[string]any{
		"slug": "web", "display_name": "web", "selector": map[string]string{"source": "role=web", "destination": "role=web"}, "rules": rulesTo(443),
	}, 201), &made))
	x.Policy, x.Revision = made.ID, made.Head.ID
	p.announced()
	return p, x
}

// guardedState is the victim's, as an administrator sees it.
func (p *process) guardedState() (state, rulesets string) {
	p.t.Helper()
	return string(p.do("GET", "/v1/nodes/"+attacks.VictimNode+"/state", nil, 200)), string(p.do("GET", "/v1/nodes/"+attacks.VictimNode+"/rulesets", nil, 200))
}

// codesAfter are the codes of what was rejected above a sequence.
func (p *process) codesAfter(after uint64) map[uint64]string {
	p.t.Helper()
	var page struct {
		Items []struct {
			Seq  uint64
			Code string
		}
	}
	require.NoError(p.t, json.Unmarshal(p.do("GET", fmt.Sprintf("/v1/rejected?after=%d&limit=500", after), nil, 200), &page))
	codes := map[uint64]string{}
	for _, x := range page.Items {
		codes[x.Seq] = x.Code
	}
	return codes
}
