package test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/oracle"
)

// follower is a run of docs/examples/follower, and what it said of each policy
// last.
type follower struct {
	t     *testing.T
	lines chan string
	says  map[string]string
}

// exampleFollows starts the example for a node of a plane.
func (p *process) exampleFollows(bin, node string) *follower {
	keys := filepath.Join(p.t.TempDir(), "keys.json")
	require.NoError(p.t, os.WriteFile(keys, p.do("GET", "/v1/keys", nil, 200), 0o600))
	ctx, cancel := context.WithCancel(p.t.Context())
	cmd := exec.CommandContext(ctx, bin, "-nats", "nats://"+p.nats, "-keys", keys, "-node", node)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	f := &follower{p.t, make(chan string, 1000), map[string]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.lines <- lines.Text()
		}
	}()
	p.t.Cleanup(func() {
		cancel()
		<-done
		_ = cmd.Wait() // it was killed
	})
	return f
}

// holds reads what the example says until it is this: rules by policy.
func (f *follower) holds(want map[string]string) {
	f.t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		now := map[string]string{}
		for id, rules := range f.says {
			if rules != "[]" {
				now[id] = rules
			}
		}
		if len(now) == len(want) {
			same := true
			for id, rules := range want {
				same = same && now[id] == rules
			}
			if same {
				return
			}
		}
		select {
		case line := <-f.lines:
			part := strings.SplitN(line, " ", 3)
			require.Len(f.t, part, 3, line)
			f.says[part[1]] = part[2]
		case <-deadline:
			require.Equal(f.t, want, now)
		}
	}
}

// rows are a node's by the oracle, by policy.
func (s *story) rows(node string) map[string]string {
	all := map[string]string{}
	for _, r := range s.plane.Rows(node) {
		all[r.Policy] = r.Payload
	}
	return all
}

// TestTheExampleFollowsAPlane has the client of docs/nodes-on-nats.md, which
// knows nothing of ours, follow a node over changes of every kind, and over a
// plane that is killed.
func TestTheExampleFollowsAPlane(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "follower")
	require.NoError(t, binary.Build("./docs/examples/follower", bin))

	p := serve(t)
	s := &story{process: p, policies: map[string]head{}}
	s.label("a", map[string]string{"role": "web"})
	s.create("before", "role=web", "role=nobody", []oracle.Rule{tcp(80)})
	f := p.exampleFollows(bin, "a")
	f.holds(s.rows("a"))
	s.create("one", "role=web", "role=nobody", []oracle.Rule{tcp(81)})
	f.holds(s.rows("a"))
	s.revise("one", "role=web", "role=nobody", manyRules(300))
	f.holds(s.rows("a"))
	s.label("a", map[string]string{"role": "db"})
	f.holds(nil)
	s.label("a", map[string]string{"role": "web"})
	f.holds(s.rows("a"))
	s.revise("before", "role=other", "role=nobody", []oracle.Rule{tcp(80)})
	f.holds(s.rows("a"))
	p.kill()
	p.start()
	s.remove("one")
	f.holds(nil)
	s.create("two", "role=web", "role=nobody", []oracle.Rule{tcp(82)})
	f.holds(s.rows("a"))
}
