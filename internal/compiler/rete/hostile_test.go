package rete_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// What somebody may write to a repository of others in few bytes, n times, and that is judged
// before anybody has looked at it.
var hostile = []struct {
	what  string
	n     int
	write func(n int) string
}{
	{"a list of names", 50_000, func(n int) string {
		return "roles: { big: { allow: [" + strings.Join(numbered("g", n), ", ") + "] } }\n"
	}},
	{"a list of names that are nearly those of others", 20_000, func(n int) string {
		return "roles: { big: { allow: [" + strings.Join(numbered("h", n), ", ") + "] } }\n" +
			"groups: {" + strings.Join(numbered("g", n), ": , ") + ": }\n"
	}},
	{"a list of devices", 50_000, func(n int) string {
		return "users: { big: { nodes: [ { at: " + strings.Join(numbered("n", n), " }, { at: ") + " } ] } }\n"
	}},
	{"a list of vertices", 50_000, func(n int) string {
		return "nodes: { big: { vertices: [ { kind: link, type: udp, name: " + strings.Join(numbered("v", n), " }, { kind: link, type: udp, name: ") + " } ] } }\n"
	}},
}

func numbered(letter string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%d", letter, i)
	}
	return all
}

// timeOf is how long it takes to judge a repository with n of them; there are faults.
func timeOf(tb testing.TB, write func(n int) string, n int) time.Duration {
	tb.Helper()
	repo := reterepo.Example()
	repo["big.yaml"] = &fstest.MapFile{Data: []byte(write(n))}
	files, _ := rete.Discover(repo)
	view, faults := rete.Load(repo, files)
	require.Empty(tb, rete.Violations(faults))
	began := time.Now()
	_, faults = rete.Validate(view, repo)
	require.NotEmpty(tb, faults)
	return time.Since(began)
}

func TestALongListOfOthersIsJudged(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.what, func(t *testing.T) { timeOf(t, h.write, h.n/10) })
	}
}

// A list takes as long as its tenths take, which are the floor.
func BenchmarkALongListOfOthers(b *testing.B) {
	const parts = 10
	for _, h := range hostile {
		b.Run(h.what, func(b *testing.B) {
			var ours, floor time.Duration
			for b.Loop() {
				ours += timeOf(b, h.write, h.n)
				for range parts {
					floor += timeOf(b, h.write, h.n/parts)
				}
			}
			b.ReportMetric(float64(ours)/float64(floor), "x-floor")
		})
	}
}

func TestAPatternOfOthersHasABound(t *testing.T) {
	// Every combination of the alternatives fits what there is, and none all of it.
	pattern := func(groups int) string { return strings.Repeat("{a,a}", groups) + "?" }
	repo := reterepo.Example()
	anchor := string(repo[rete.Anchor].Data)
	repo[strings.Repeat("a", 40)+".yaml"] = &fstest.MapFile{}
	for groups, refused := range map[int]bool{12: false, 13: true, 30: true} {
		repo[rete.Anchor] = &fstest.MapFile{Data: []byte(fmt.Sprintf("source: { exclude: [ %q ] }\n", pattern(groups)) + anchor)}
		files, faults := rete.Discover(repo)
		require.Empty(t, faults)
		_, faults = rete.Load(repo, files)
		require.Equal(t, refused, len(faults) > 0, "%d groups", groups)
		if refused {
			require.Contains(t, faults[0].Message, "more than 12 commas")
			require.Equal(t, "1", faults[0].Rule)
		}
	}
}
