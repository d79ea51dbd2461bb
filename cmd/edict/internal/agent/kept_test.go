//go:build linux

package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/test/fakenft"
	"github.com/edictdev/edict/node"
)

// Without a table of its own an agent says what is there: the kept one, which is damaged, and
// that of before, which the kernel holds. That the plane is away is only half of it.
func TestWhatAStartLeftIsSaidUntilATableIsApplied(t *testing.T) {
	b := newBench(t)
	text := tableOf(5, allowTCP(443))
	b.plane.put(text, nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })
	require.NoError(t, os.Truncate(b.dir+"/table.json", 100))
	b.plane.put(nil, errors.New("away"))
	b.life(func(next func() agent.Status) {
		s := next()
		require.Equal(t, agent.StateNone, s.State)
		require.Contains(t, s.Error, "the kept table cannot be applied (read the table: unexpected end of JSON input)")
		require.Contains(t, s.Error, "the kernel still holds the table from before the agent was started")
		require.Contains(t, s.Error, "away")
		b.kernel.Forget()
		require.NotContains(t, next().Error, "the kernel still holds")
		b.plane.put(text, nil)
		require.Empty(t, next().Error)
		b.plane.put(nil, errors.New("away"))
		require.Equal(t, "away", next().Error)
	})
}

// What the kernel made of the plane's table, where that is not what it was given, is none of before.
func TestWhatTheKernelMadeOfATableIsNotTheTableOfBefore(t *testing.T) {
	b := newBench(t)
	kernel, word := &forgetful{Kernel: b.kernel}, "443"
	kernel.word.Store(&word)
	b.through = kernel
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		s := next()
		require.Contains(t, s.Error, "the kernel holds another ruleset than it was given")
		require.NotContains(t, s.Error, "from before")
	})
}

// What cannot be read is damaged: an agent that ended over it would leave the node without rules
// though the plane answers.
func TestAKeptTableThatCannotBeReadEndsNoAgent(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.Mkdir(b.dir+"/table.json", 0o700))
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		s := next()
		require.Equal(t, agent.StateCurrent, s.State)
		require.Contains(t, s.Error, "keep the table, which is in force")
		require.Contains(t, b.rules(), "443")
		require.NoError(t, os.Remove(b.dir+"/table.json"))
		require.Eventually(t, func() bool { return next().Error == "" }, 20*time.Second, time.Millisecond)
	})
	kept, err := os.ReadFile(b.dir + "/table.json")
	require.NoError(t, err)
	require.Equal(t, tableOf(5, allowTCP(443)), kept)
}

// An agent that is told to end while nft runs has cut it off. That is neither the table's fault
// nor the kernel's, and takes away nothing of what was said before.
func TestAnAgentThatEndsWhileItStartsBlamesNobody(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })
	before := b.kept()
	var log syncBuffer
	b.log = slog.New(slog.NewTextHandler(&log, nil))
	kernel := &jammed{Kernel: b.kernel}
	kernel.hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := agent.OpenEnforcer(ctx, agent.EnforcerOptions{Node: self, Dir: b.dir, Server: b.events.url, Tables: b.plane, Kernel: kernel, Log: b.log, Now: b.clock})
	require.NoError(t, err)
	require.NoError(t, e.Run(ctx))
	require.Equal(t, before, b.kept())
	require.Empty(t, log.String())
}

// On a full disk the status is the only one who can say that the table is not kept.
func TestTheStatusOfAFullDiskIsNotThatOfBefore(t *testing.T) {
	b := newBench(t)
	disk := &fullDisk{file: ".next"} // room for one file, and for none beside it
	b.disk = disk
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		disk.full.Store(true)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.EqualValues(t, 6, next().Version)
		s := b.kept()
		require.EqualValues(t, 6, s.Version)
		require.Contains(t, s.Error, "keep the table, which is in force")
	})
}

// TestWhoseNodeIsGoneIsNotCurrent: not even until the next look that nobody asks for.
func TestWhoseNodeIsGoneIsNotCurrent(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	looked := make(chan struct{})
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/keys" {
			http.Redirect(w, r, b.events.url+"/v1/keys", http.StatusFound)
			return
		}
		<-looked
		w.WriteHeader(http.StatusNotFound)
	}))
	defer gone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := make(chan agent.Status, 100)
	e, err := agent.OpenEnforcer(ctx, agent.EnforcerOptions{
		Node: self, Dir: b.dir, Server: gone.URL, Tables: b.plane, Kernel: fakenft.New(), Every: time.Hour, Now: b.clock,
		Reports: &words{kernel: b.kernel}, Follow: node.Options{MinWait: time.Hour}, Looked: func(s agent.Status) { said <- s },
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	<-said
	close(looked)
	select {
	case s := <-said:
		require.Equal(t, agent.StatePolling, s.State)
		require.Contains(t, s.Error, "404")
	case <-time.After(20 * time.Second):
		require.Fail(t, "nobody looked")
	}
	cancel()
	require.NoError(t, <-ended)
}

// TestWhatIsNoStatusIsNotShown as one without words.
func TestWhatIsNoStatusIsNotShown(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"{}", "null", `{"node_id":"alpha","state":"fine"}`, `{"state":"current"}`, `{"sta`} {
		require.NoError(t, os.WriteFile(dir+"/status.json", []byte(text), 0o600))
		_, err := agent.ReadStatus(tree.Disk{}, dir)
		require.ErrorContains(t, err, "writes it anew within 30 s", text)
	}
}

// TestWhoHasJustBegunIsNotCurrent: after a boot nothing is in force, whatever was when the last
// agent ended, and both nft and the plane may take minutes.
func TestWhoHasJustBegunIsNotCurrent(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })
	require.Equal(t, agent.StateCurrent, b.kept().State)
	seen := make(chan agent.Status, 1)
	b.through = &watchedKernel{Kernel: fakenft.New(), run: func() { seen <- b.kept() }}
	b.life(func(next func() agent.Status) {
		s := <-seen
		require.Equal(t, agent.StateNone, s.State, "nft runs")
		require.Contains(t, s.Error, "put nothing in force yet")
		require.Equal(t, agent.StateCurrent, next().State)
	})

	require.NoError(t, os.Remove(b.dir+"/table.json"))
	b.plane.put(nil, errors.New("away"))
	b.through = fakenft.New()
	_, err := agent.OpenEnforcer(t.Context(), agent.EnforcerOptions{Node: self, Dir: b.dir, Server: b.events.url, Tables: b.plane, Kernel: b.through, Now: b.clock})
	require.NoError(t, err)
	require.Equal(t, agent.StateNone, b.kept().State, "no table is kept, and the plane was not asked yet")
}

// watchedKernel is a kernel that calls somebody the first time that it is given something.
type watchedKernel struct {
	*fakenft.Kernel
	once sync.Once
	run  func()
}

func (w *watchedKernel) Run(ctx context.Context, tx *knftables.Transaction) error {
	w.once.Do(w.run)
	return w.Kernel.Run(ctx, tx)
}
