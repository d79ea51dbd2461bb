//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/fakenft"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// tableOf is a table with one entry for any peer.
func tableOf(version int, entry string) []byte {
	entries := `[{"direction":"ingress","identity":0,` + entry + `,"precedence":9,"rule":{"policy":"01900000-0003-72ce-a48f-e028a62562a8","revision":"r","index":3}}]`
	sum := sha256.Sum256([]byte(`{"identities":[],"entries":` + entries + `}`))
	return fmt.Appendf(nil, `{"node_id":%q,"version":%d,"fingerprint":%q,"identities":[],"entries":%s}`,
		self, version, base64.StdEncoding.EncodeToString(sum[:]), entries)
}

func allowTCP(port int) string {
	return fmt.Sprintf(`"protocol":"tcp","port":%d,"prefix":16,"verdict":"allow"`, port)
}

// shelf is a plane that serves tables, or fails.
type shelf struct {
	mu    sync.Mutex
	table []byte
	err   error
	held  []string // what the agent said it has, by fingerprint; empty: nothing
	audit []byte   // the table in audit mode; nil: there is none
	seq   uint64   // at which the table is right; 0: it is not said
}

func heldBy(ask client.TableQuery) string {
	if ask.Held == nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(ask.Held.Fingerprint[:])
}

func (s *shelf) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.held)
}

func (s *shelf) put(table []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.err = table, err
}

func (s *shelf) Table(_ context.Context, _ string, ask client.TableQuery) (client.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := fmt.Sprintf("%x", sha256.Sum256(s.table))
	if s.err != nil {
		return client.Table{}, s.err
	}
	if ask.Audit {
		tag = fmt.Sprintf("%x", sha256.Sum256(s.audit))
		return client.Table{Body: s.audit, ETag: tag, NotModified: s.audit != nil && ask.ETag == tag, None: s.audit == nil}, nil
	}
	if ask.Held != nil {
		contents, err := ask.Held.Read()
		if err != nil || sha256.Sum256(contents) != ask.Held.Fingerprint {
			return client.Table{}, fmt.Errorf("the agent does not have what it says it has: %w", err)
		}
	}
	s.held = append(s.held, heldBy(ask))
	return client.Table{Body: s.table, ETag: tag, NotModified: ask.ETag == tag, LogSeq: s.seq}, nil
}

// bench is an enforcer that looks at its plane as often as the test says.
type bench struct {
	t      *testing.T
	dir    string
	plane  *shelf
	events *plane // where the node is told that something changed
	kernel *fakenft.Kernel
	audit  *fakenft.Kernel // where the agent counts
	now    time.Time
	passed atomic.Int64 // of its life
	looked chan agent.Status
	shown  *agent.Metrics
	deaf   bool // the plane's events cannot be read
	said   agent.Reports

	through        enforce.Kernel  // in front of kernel; nil: nothing is
	tables         agent.Tables    // in place of plane; nil: plane
	log            *slog.Logger    // nil: nobody reads it
	disk           agent.FS        // nil: the machine's
	patience       time.Duration   // with which it waits for a table
	kernelPatience time.Duration   // with which it waits for nft
	enforcer       *agent.Enforcer // of the present life
	begun          func()          // when a life has opened its directory, and not run yet; nil: nothing
}

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, dir: t.TempDir(), plane: &shelf{}, events: newPlane(t), kernel: fakenft.New(), audit: fakenft.NewAudit(),
		now: time.Unix(1_800_000_000, 0), looked: make(chan agent.Status),
	}
}

// life is an agent from its start on; after looks it is ended.
func (b *bench) life(during func(next func() agent.Status)) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	kernel, tables := b.through, b.tables
	if kernel == nil {
		kernel = b.kernel
	}
	if tables == nil {
		tables = b.plane
	}
	opened := make(chan agent.Status, 1)
	open := true
	e, err := agent.OpenEnforcer(ctx, agent.EnforcerOptions{
		Node: self, Dir: b.dir, Server: b.events.url, Tables: tables, Kernel: kernel, AuditKernel: b.audit, Reports: b.said,
		Follow: node.Options{MinWait: time.Millisecond, MaxWait: time.Millisecond, AskEvery: time.Millisecond},
		Every:  time.Millisecond, MaxAge: time.Minute, Patience: b.patience, KernelPatience: b.kernelPatience, FS: b.disk, Log: b.log, Now: b.clock, Metrics: b.shown,
		Looked: func(s agent.Status) {
			if open {
				if b.begun != nil {
					b.begun()
				}
				opened <- s
				return
			}
			select {
			case b.looked <- s:
			case <-ctx.Done():
			}
		},
	})
	open = false
	require.NoError(b.t, err)
	b.enforcer = e
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	during(func() agent.Status {
		<-b.looked // what was seen before the caller changed something
		s := <-b.looked
		for s.State == agent.StatePolling && !b.deaf { // the stream is not open yet
			s = <-b.looked
		}
		return s
	})
	cancel()
	require.NoError(b.t, <-ended)
}

// syncBuffer is a buffer that several may write to.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

// clock is the time of the agent, which only later moves while it lives.
func (b *bench) clock() time.Time { return b.now.Add(time.Duration(b.passed.Load())) }

func (b *bench) later(d time.Duration) { b.passed.Add(int64(d)) }

func (b *bench) rules() string { return b.kernel.Dump() }

func (b *bench) kept() agent.Status {
	s, err := agent.ReadStatus(tree.Disk{}, b.dir)
	require.NoError(b.t, err)
	return s.At(b.now)
}

func TestWhatIsInForceStaysWithoutThePlaneAndComesBackAfterABoot(t *testing.T) {
	b := newBench(t)
	away := errors.New("away")
	b.plane.put(nil, away)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateNone, next().State)
		require.Empty(t, b.rules())

		b.plane.put(tableOf(5, allowTCP(443)), nil)
		s := next()
		require.Equal(t, agent.StateCurrent, s.State)
		require.EqualValues(t, 5, s.Version)
		require.Contains(t, b.rules(), "tcp . 443 : accept")

		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.EqualValues(t, 6, next().Version)
		require.NotContains(t, b.rules(), "443")
		require.Contains(t, b.rules(), "tcp . 444 : accept")
	})
	before := b.rules()
	require.Equal(t, agent.StateCurrent, b.kept().State)
	b.now = b.now.Add(time.Hour)
	require.Equal(t, agent.StateStale, b.kept().State, "no agent runs")

	// A boot: the kernel forgot everything, and the plane is away.
	b.kernel = fakenft.New()
	b.plane.put(nil, away)
	b.life(func(next func() agent.Status) {
		require.Equal(t, before, b.rules())
		s := next()
		require.Equal(t, agent.StateStale, s.State)
		require.Equal(t, "away", s.Error)
		b.plane.put(tableOf(7, allowTCP(444)), nil)
		require.Equal(t, agent.StateCurrent, next().State)
		require.Equal(t, before, b.rules())
	})
}

// An agent whose stream cannot be read finds a change at its next look, and does
// not call what it found current.
func TestWhoCannotReadTheStreamPollsAndSaysSo(t *testing.T) {
	b := newBench(t)
	b.deaf = true
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		until := func(want agent.State) agent.Status {
			for {
				if s := next(); s.State == want {
					return s
				}
			}
		}
		until(agent.StateCurrent)
		b.events.speak(func([]byte) []byte { return []byte("hello") })
		s := until(agent.StatePolling)
		for !strings.Contains(s.Error, "cannot be read") {
			s = next()
			require.NotEqual(t, agent.StateNone, s.State)
		}
		for range 20 {
			require.Equal(t, agent.StatePolling, next().State, "however often it connects")
		}
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.EqualValues(t, 6, next().Version, "and yet what changed is in force")
		require.Contains(t, b.kept().Error, "malformed")

		b.events.speak(nil)
		until(agent.StateCurrent)
	})
	for _, form := range b.events.asked() {
		require.Equal(t, "text/event-stream;dialect=batch;tables=true", form)
	}
}

func TestWhoseStreamIsAwayIsNotCurrent(t *testing.T) {
	b := newBench(t)
	b.deaf = true
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.events.url += "/nowhere"
	b.life(func(next func() agent.Status) {
		for range 10 {
			s := next()
			require.Equal(t, agent.StatePolling, s.State)
			require.NotEmpty(t, s.Error)
		}
		require.Contains(t, b.rules(), "443")
	})
	require.Equal(t, agent.StatePolling, b.kept().State)
}

func TestATableThatIsRefusedLeavesTheLastOneInForce(t *testing.T) {
	b := newBench(t)
	good := tableOf(5, allowTCP(443))
	b.plane.put(good, nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		before := b.rules()
		for why, table := range map[string][]byte{
			"rule 3 of policy 01900000-0003-72ce-a48f-e028a62562a8: it requires authentication": tableOf(6, allowTCP(1)+`,"auth":"required"`),
			"only tcp, udp and sctp have a port":                                                tableOf(6, `"protocol":"icmp","port":0,"prefix":0,"verdict":"redirect","proxy_port":9`),
			"it was changed":                                                                    []byte(strings.Replace(string(good), "443", "444", 1)),
			"not of alpha":                                                                      []byte(strings.Replace(string(good), `"alpha"`, `"beta"`, 1)),
			"read the table":                                                                    good[:len(good)-9],
			"is no prefix":                                                                      tableOf(6, `"protocol":"tcp","port":5,"prefix":3,"verdict":"allow"`),
			"not the verdict of an entry":                                                       tableOf(6, `"protocol":"tcp","port":5,"prefix":16,"verdict":"pass"`),
		} {
			b.plane.put(table, nil)
			s := next()
			require.Equal(t, agent.StateRefused, s.State, why)
			require.Contains(t, s.Error, why)
			require.EqualValues(t, 5, s.Version)
			require.Equal(t, before, b.rules())
		}
		b.kernel.Refuse(errors.New("no room"))
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		s := next()
		require.Equal(t, agent.StateRefused, s.State)
		require.Contains(t, s.Error, "which changed nothing: no room")
		require.Equal(t, before, b.rules())
		b.kernel.Refuse(nil)
		require.Equal(t, agent.StateCurrent, next().State)
		require.Contains(t, b.rules(), "444")
	})
}

// TestNothingIsReportedThatTheKernelRefused has a node hear everything while its
// kernel takes nothing: until it does, not a word about it reaches the plane.
func TestNothingIsReportedThatTheKernelRefused(t *testing.T) {
	b := newBench(t)
	b.events.release(node.Artifacts{}, nil)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.kernel.Refuse(errors.New("no room"))
	b.life(func(next func() agent.Status) {
		require.Eventually(t, func() bool { return next().State == agent.StateRefused && len(b.events.asked()) > 0 }, 20*time.Second, time.Millisecond)
		for range 3 {
			require.Equal(t, agent.StateRefused, next().State)
		}
	})
	said := b.events.reports()
	require.NotEmpty(t, said, "what waited to be said was said at its end")
	for _, r := range said {
		require.Contains(t, r, `"outcome":"refused","reason":"nft refused the transaction, which changed nothing: no room"`)
	}
	b.kernel.Refuse(nil)
	b.life(func(next func() agent.Status) {
		require.Eventually(t, func() bool { return next().State == agent.StateCurrent && len(b.events.reports()) > len(said) }, 20*time.Second, time.Millisecond)
	})
	first := b.events.reports()[len(said)]
	require.Contains(t, first, `"1"`)
	require.NotContains(t, first, "outcome")
}

// The agent asks for what changed since the table that it keeps, also after a boot.
func TestAnAgentAsksForTheChangeOfTheTableItKeeps(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(1, allowTCP(80)), nil)
	var first agent.Status
	b.life(func(next func() agent.Status) {
		next()
		first = next()
		require.Equal(t, agent.StateCurrent, first.State)
		require.Empty(t, b.plane.asked()[0])
		next()
		require.Equal(t, first.Fingerprint, b.plane.asked()[1])
	})
	b.life(func(next func() agent.Status) {
		before := len(b.plane.asked())
		next()
		next()
		require.Equal(t, first.Fingerprint, b.plane.asked()[before])
	})
}

// stuck is a plane that takes a request and never answers it, while it is.
type stuck struct {
	*shelf
	is     atomic.Bool
	audits atomic.Int64 // how often it was asked for a table in audit mode
}

func (s *stuck) Table(ctx context.Context, id string, ask client.TableQuery) (client.Table, error) {
	if s.is.Load() {
		if ask.Audit {
			s.audits.Add(1)
		}
		<-ctx.Done()
		return client.Table{}, ctx.Err()
	}
	return s.shelf.Table(ctx, id, ask)
}

// A plane that has stopped, and whose connections stand, does not stop the agent: it
// goes on looking at the kernel, and asks again.
func TestAPlaneThatNeverAnswersIsGivenUpAndAskedAgain(t *testing.T) {
	b := newBench(t)
	plane := &stuck{shelf: b.plane}
	b.tables, b.patience = plane, 20*time.Millisecond
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		before := b.rules()
		plane.is.Store(true)
		require.Contains(t, next().Error, "the plane did not answer within 20ms")
		b.kernel.Forget()
		next()
		require.Equal(t, before, b.rules(), "what others make of the table is put right")
		next()
		require.LessOrEqual(t, plane.audits.Load(), int64(1), "who has not answered is not asked at once again, for what would be denied")
		b.later(2 * time.Minute)
		require.Equal(t, agent.StateStale, next().State)

		plane.is.Store(false)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		s := next()
		require.Equal(t, agent.StateCurrent, s.State)
		require.EqualValues(t, 6, s.Version)
	})
}

// Until the plane was reached nobody would say that the kept table is right no more.
func TestAKeptTableIsNotCurrentBeforeThePlaneIsReached(t *testing.T) {
	b := newBench(t)
	plane := &stuck{shelf: b.plane}
	b.tables = plane
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })
	require.Equal(t, agent.StateCurrent, b.kept().State)
	plane.is.Store(true)
	b.life(func(func() agent.Status) {
		s := b.kept()
		require.Equal(t, agent.StatePolling, s.State)
		require.Equal(t, "the plane was not reached yet", s.Error)
	})
}

// Events that come again say nothing about what changed before, while the plane gives no table.
func TestAKeptTableIsNotCurrentBeforeThePlaneConfirmsIt(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })
	b.plane.put(nil, errors.New("behind"))
	var said syncBuffer
	b.deaf, b.log = true, slog.New(slog.NewTextHandler(&said, nil))
	b.life(func(next func() agent.Status) {
		require.Eventually(t, func() bool { next(); return b.enforcer.StreamOpen() }, 20*time.Second, time.Millisecond)
		for range 3 {
			require.Equal(t, agent.StatePolling, next().State)
		}
		require.Contains(t, said.String(), "the plane gave no table")
		b.plane.put(tableOf(5, allowTCP(443)), nil)
		require.Eventually(t, func() bool { return next().State == agent.StateCurrent }, 20*time.Second, time.Millisecond)
	})
}

// What the plane confirmed was not what is in force after a boot.
func TestAnOlderKeptTableWasNotConfirmed(t *testing.T) {
	b := newBench(t)
	disk := &fullDisk{file: "table.json.next"}
	b.disk = disk
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		next()
		disk.full.Store(true)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.EqualValues(t, 6, next().Version)
	})
	b.kernel = fakenft.New()
	b.plane.put(nil, errors.New("away"))
	b.deaf = true
	b.life(func(next func() agent.Status) {
		s := next()
		require.EqualValues(t, 5, s.Version)
		require.Equal(t, agent.StateStale, s.State)
		require.Zero(t, s.ConfirmedAt)
	})
}

// fullDisk is a disk without room for a file, one whose name ends so, while it is full.
type fullDisk struct {
	tree.Disk
	file string
	full atomic.Bool
}

func (d *fullDisk) WriteFile(name string, content []byte) error {
	if d.full.Load() && strings.HasSuffix(name, d.file) {
		return syscall.ENOSPC
	}
	return d.Disk.WriteFile(name, content)
}

// What is in force is right, whether or not there is room to keep it for the next boot.
func TestATableThatCannotBeKeptIsInForceAllTheSame(t *testing.T) {
	b, said := heard(t)
	disk := &fullDisk{file: "table.json.next"}
	b.disk = disk
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		disk.full.Store(true)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		s := next()
		require.EqualValues(t, 6, s.Version)
		require.Contains(t, b.rules(), "444")
		b.later(2 * time.Minute)
		before := said.count()
		for range 3 {
			s = next()
			require.Equal(t, agent.StateCurrent, s.State, "the plane confirms it")
			require.Contains(t, s.Error, "keep the table, which is in force")
		}
		require.Greater(t, said.count(), before)
		require.Equal(t, policy.OutcomeApplied, said.last().Outcome)
		disk.full.Store(false)
		next()
		require.Empty(t, next().Error)
	})
	kept, err := disk.ReadFile(b.dir + "/table.json")
	require.NoError(t, err)
	require.Equal(t, tableOf(6, allowTCP(444)), kept)
}

// A table that somebody takes away or damages under an agent that runs is kept again: a boot without the
// plane would put nothing in force.
func TestAKeptTableThatIsTakenAwayIsKeptAgain(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	path := b.dir + "/table.json"
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		for what, damage := range map[string]func() error{
			"away":    func() error { return os.Remove(path) },
			"cut":     func() error { return os.Truncate(path, 10) },
			"another": func() error { return os.WriteFile(path, tableOf(4, allowTCP(80)), 0o600) },
		} {
			require.NoError(t, damage())
			next()
			s := next()
			require.Equal(t, agent.StateCurrent, s.State, what)
			require.Empty(t, s.Error, what)
			kept, err := os.ReadFile(path)
			require.NoError(t, err, what)
			require.Equal(t, tableOf(5, allowTCP(443)), kept, what)
			require.Contains(t, b.rules(), "443", what)
		}
	})
}

// forgetful is a kernel that takes a transaction and holds something else, if the
// transaction has a word.
type forgetful struct {
	*fakenft.Kernel
	word atomic.Pointer[string]
}

func (f *forgetful) List(ctx context.Context) (*enforce.Listing, error) {
	l, err := f.Kernel.List(ctx)
	if word := f.word.Load(); l != nil && word != nil && strings.Contains(f.Dump(), *word) {
		l.Flagged = true
	}
	return l, err
}

func TestATableThatTheKernelHoldsOtherwiseIsTakenBack(t *testing.T) {
	b, said := heard(t)
	kernel := &forgetful{Kernel: b.kernel}
	b.through = kernel
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		before, word := b.rules(), "444"
		kernel.word.Store(&word)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		for range 3 {
			s := next()
			require.Equal(t, agent.StateRefused, s.State)
			require.EqualValues(t, 5, s.Version)
			require.Contains(t, s.Error, "the kernel holds another ruleset than it was given")
		}
		said.until(t, next, policy.OutcomeRefused, "the kernel holds another ruleset than it was given")
		said.mu.Lock()
		defer said.mu.Unlock()
		for i, held := range said.held {
			if said.all[i].Outcome == policy.OutcomeRefused {
				require.Equal(t, before, held, "the table in force stays")
			}
		}
	})
}

func TestADamagedTableIsNotPutInForce(t *testing.T) {
	b := newBench(t)
	text := tableOf(5, allowTCP(443))
	b.plane.put(text, nil)
	b.life(func(next func() agent.Status) { next() })
	disk := tree.Disk{}
	require.NoError(t, disk.RemoveAll(b.dir+"/table.json"))
	require.NoError(t, disk.WriteFile(b.dir+"/table.json", []byte(strings.Replace(string(text), "443", "22", 1))))
	b.kernel = fakenft.New()
	b.plane.put(nil, errors.New("away"))
	var log syncBuffer
	b.log = slog.New(slog.NewTextHandler(&log, nil))
	defer func() {
		require.Contains(t, log.String(), "the kept table cannot be applied")
		require.Equal(t, 1, strings.Count(log.String(), "it was changed"), "nothing is said of a plane that was not asked")
	}()
	b.begun = func() {
		require.Empty(t, b.rules())
		b.plane.put(text, nil)
	}
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		require.Contains(t, b.rules(), "443")
	})
}

// TestAKeptTableThatTheKernelRefusesAtABootIsTriedAgain: the plane may be away for long, and
// until then nothing would be in force.
func TestAKeptTableThatTheKernelRefusesAtABootIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { require.Equal(t, agent.StateCurrent, next().State) })

	b.kernel = fakenft.New() // as after a boot
	b.kernel.Refuse(errors.New("busy"))
	b.plane.put(nil, errors.New("away"))
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateNone, next().State)
		require.Empty(t, b.rules())

		b.kernel.Refuse(nil)
		s := next()
		require.EqualValues(t, 5, s.Version)
		require.Equal(t, "away", s.Error)
		require.Contains(t, b.rules(), "tcp . 443 : accept")
	})
}

// What a crash left half written is cleared away by the next start, and by who removes the table.
func TestAFileThatWasCutOffIsClearedAway(t *testing.T) {
	b := newBench(t)
	b.plane.put(nil, errors.New("away"))
	left := func() {
		for _, name := range []string{"table.json.next", "status.json.next"} {
			require.NoError(t, os.WriteFile(filepath.Join(b.dir, name), []byte("{"), 0o600))
		}
	}
	left()
	b.life(func(next func() agent.Status) {
		next()
		names, err := filepath.Glob(b.dir + "/*.next")
		require.NoError(t, err)
		require.NotContains(t, names, b.dir+"/table.json.next")
	})
	left()
	require.NoError(t, agent.RemoveTable(t.Context(), []enforce.Kernel{b.kernel}, b.dir))
	names, err := filepath.Glob(b.dir + "/*")
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestWhatOthersMakeOfTheTableIsPutRight(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		next()
		before, runs := b.rules(), b.kernel.Runs()
		next()
		require.Equal(t, runs, b.kernel.Runs(), "what is right is left alone")
		b.kernel.Forget()
		b.plane.put(nil, errors.New("away"))
		next()
		require.Equal(t, before, b.rules())
	})
	require.NoError(t, agent.RemoveTable(t.Context(), []enforce.Kernel{b.kernel}, b.dir))
	require.Empty(t, b.rules())
	_, err := agent.ReadStatus(tree.Disk{}, b.dir)
	require.Error(t, err)
}
