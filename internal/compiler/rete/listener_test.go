package rete_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// crowd is the example with these users on node alpha, enrolled.
func crowd(users map[string]bool) fstest.MapFS {
	repo := reterepo.Example()
	for name := range users {
		repo["crowd-"+name+".yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, "users:\n  %s: { roles: [devops], nodes: [ { at: alpha } ] }\n", name)}
	}
	reterepo.Enroll(repo)
	return repo
}

// listenersOf are those of all nodes, as the next compilation takes them.
func listenersOf(sets []rete.NodeSet) rete.Listeners {
	all := rete.Listeners{}
	for _, s := range sets {
		for _, a := range s.Artifacts {
			if a.Kind == rete.ArtifactVertex {
				all[s.Node] = append(all[s.Node], rete.ListenersOf(a.Name, a.Payload)...)
			}
		}
	}
	return all
}

func byPrincipal(l rete.Listeners) map[string]string {
	all := map[string]string{}
	for node, some := range l {
		for _, at := range some {
			all[node+" "+at.SPIFFE] = at.At.String()
		}
	}
	return all
}

func TestWhoeverComesOrGoesMovesNobodysListener(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		users := rapid.MapOfN(rapid.StringMatching("[a-c]v[a-z]"), rapid.Just(true), 0, 4)
		var before rete.Listeners
		for range 4 {
			m := judged(t, crowd(users.Draw(rt, "users")))
			sets, faults := rete.CompileAfter(m, before)
			require.Empty(rt, faults)
			now := listenersOf(sets)
			was, is := byPrincipal(before), byPrincipal(now)
			for who, at := range is {
				if had, ok := was[who]; ok {
					require.Equal(rt, had, at, "%s", who)
				}
			}
			taken := map[string]bool{}
			for who, at := range is {
				key := strings.Fields(who)[0] + " " + at
				require.False(rt, taken[key], "%s is given twice", key)
				taken[key] = true
			}
			again, _ := rete.CompileAfter(m, before)
			require.Equal(rt, sets, again, "equal input, equal output")
			before = now
		}
	})
}

func TestARepositoryWithoutAPastCompilesAsEver(t *testing.T) {
	m := judged(t, crowd(map[string]bool{"aaron": true}))
	want, faults := rete.Compile(m)
	require.Empty(t, faults)
	for _, before := range []rete.Listeners{nil, {}, listenersOf(want), {"alpha": {{Vertex: "flor", SPIFFE: "spiffe://rete-lovers/user/gone"}}}} {
		got, faults := rete.CompileAfter(m, before)
		require.Empty(t, faults)
		require.Equal(t, want, got)
	}
	require.Equal(t, "127.0.0.1:1080", byPrincipal(listenersOf(want))["alpha spiffe://rete-lovers/user/aaron"])
}

func TestAVertexIsRenamedAndItsListenersStay(t *testing.T) {
	users := map[string]bool{"dora": true}
	sets, _ := rete.Compile(judged(t, crowd(users)))
	before := listenersOf(sets)
	users["aaron"] = true
	repo := crowd(users)
	repo["nodes.yaml"].Data = []byte(strings.ReplaceAll(string(repo["nodes.yaml"].Data), "name: flor", "name: main"))
	sets, faults := rete.CompileAfter(judged(t, repo), before)
	require.Empty(t, faults)
	was, is := byPrincipal(before), byPrincipal(listenersOf(sets))
	added := maps.Clone(is)
	maps.DeleteFunc(added, func(who, at string) bool { return was[who] == at })
	require.Equal(t, map[string]string{"alpha spiffe://rete-lovers/user/aaron": "127.0.0.1:1082"}, added)
}

func TestAListenerThatMustMakeRoomMovesAndThatIsSaid(t *testing.T) {
	repo := reterepo.Example()
	sets, _ := rete.Compile(judged(t, repo))
	before := listenersOf(sets)
	f := repo["users.yaml"]
	f.Data = []byte(strings.Replace(string(f.Data), "{ at: alice-laptop }", `{ at: alice-laptop, socks5_proxy: "127.0.0.1:1081" }`, 1))
	sets, faults := rete.CompileAfter(judged(t, repo), before)
	require.Len(t, faults, 1)
	require.True(t, faults[0].Warning)
	require.Contains(t, faults[0].Message, `nodes.alice-laptop listened at 127.0.0.1:1081 on node "alice-laptop", which is another's now; it moves to 127.0.0.1:1080`)
	is := byPrincipal(listenersOf(sets))
	require.Equal(t, "127.0.0.1:1081", is["alice-laptop spiffe://rete-lovers/user/alice"])
	for _, s := range sets {
		if s.Node != "alice-laptop" {
			continue
		}
		var p rete.AgentPayload
		require.NoError(t, json.Unmarshal(s.Artifacts[0].Payload, &p))
		require.Equal(t, "127.0.0.1:1080", p.ControlPlane.Via.Addr, "the agent knows where")
	}
}
