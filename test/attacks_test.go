package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/test/attacks"
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
