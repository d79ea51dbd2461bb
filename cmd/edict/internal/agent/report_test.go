//go:build linux

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/internal/test/fakenft"
	"github.com/edictdev/edict/policy"
)

// words are what a node says, with what its kernel held when it said so.
type words struct {
	kernel *fakenft.Kernel

	mu   sync.Mutex
	all  []policy.Report
	held []string
}

func (w *words) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (w *words) Send(r policy.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.held = append(w.all, r), append(w.held, w.kernel.Dump())
}

// last is what was said last; the zero report when nothing was.
func (w *words) last() (r policy.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.all); n > 0 {
		r = w.all[n-1]
	}
	return r
}

func (w *words) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// heard is a bench whose node has been told of something.
func heard(t *testing.T) (*bench, *words) {
	b := newBench(t)
	b.events.speak(nil)
	w := &words{kernel: b.kernel}
	b.said = w
	return b, w
}

// until looks until the last thing that the node said has an outcome and a reason.
func (w *words) until(t *testing.T, next func() agent.Status, o policy.Outcome, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		next()
		r := w.last()
		return r.Event != 0 && r.Outcome == o && strings.Contains(r.Reason, why)
	}, 20*time.Second, time.Millisecond)
}

func TestANodeSaysWhyItDoesNotEnforceATable(t *testing.T) {
	b, w := heard(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		w.until(t, next, policy.OutcomeApplied, "")
		require.Empty(t, w.last().Reason)
		b.plane.put(tableOf(6, allowTCP(1)+`,"auth":"required"`), nil)
		w.until(t, next, policy.OutcomeRefused, "rule 3 of policy 01900000-0003-72ce-a48f-e028a62562a8: it requires authentication")
		b.plane.put(tableOf(6, `"protocol":"icmp","port":0,"prefix":0,"verdict":"redirect","proxy_port":9`), nil)
		w.until(t, next, policy.OutcomeRefused, "only tcp, udp and sctp have a port")
		b.kernel.Refuse(errors.New("no room\nfor this"))
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		w.until(t, next, policy.OutcomeRefused, "no room for this") // one line
		b.kernel.Refuse(nil)
		w.until(t, next, policy.OutcomeApplied, "")
		require.Contains(t, b.rules(), "444")
	})
}

// What somebody else made of the rules is put right, and said for long enough that
// somebody hears of it; then the node says again that all is well.
func TestANodeSaysThatOthersChangedItsRules(t *testing.T) {
	b, w := heard(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		w.until(t, next, policy.OutcomeApplied, "")
		before := b.rules()
		b.kernel.Forget()
		w.until(t, next, policy.OutcomeDrift, "there is no table")
		require.Equal(t, before, b.rules())
		for range 5 {
			next()
			require.Equal(t, policy.OutcomeDrift, w.last().Outcome)
		}
		b.later(time.Second)
		w.until(t, next, policy.OutcomeApplied, "")
	})
}

func TestANodeSaysThatItsTableIsTooOld(t *testing.T) {
	b, w := heard(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		w.until(t, next, policy.OutcomeApplied, "")
		b.plane.put(nil, errors.New("away"))
		next()
		n := w.count()
		next()
		require.Equal(t, n, w.count(), "a plane that is away for a moment is nothing to speak of")
		b.later(2 * time.Minute)
		w.until(t, next, policy.OutcomeStale, "away")
		b.plane.put(tableOf(5, allowTCP(443)), nil)
		w.until(t, next, policy.OutcomeApplied, "")
	})
}

// turnstile is a kernel in which something happens before each transaction.
type turnstile struct {
	*fakenft.Kernel
	before func()
}

func (k *turnstile) Run(ctx context.Context, tx *knftables.Transaction) error {
	k.before()
	return k.Kernel.Run(ctx, tx)
}

// newest is a plane whose table allows the port 1000 and what it announced last.
type newest struct{ events *plane }

func (n newest) Table(context.Context, string, client.TableQuery) (client.Table, error) {
	at := int(n.events.position())
	return client.Table{Body: tableOf(at, allowTCP(1000+at)), ETag: fmt.Sprint(at)}, nil
}

// A node says that it applied something only once its kernel has it. What it is told
// while its kernel is written is not in what is written.
func TestNothingIsAppliedBeforeTheKernelHasIt(t *testing.T) {
	b, w := heard(t)
	b.tables = newest{b.events}
	const more = 5
	left := more
	b.through = &turnstile{b.kernel, func() {
		if left == 0 || b.enforcer.Position() == 0 {
			return
		}
		left--
		b.events.speak(nil)
		told := b.events.position()
		assert.Eventually(t, func() bool { return uint64(b.enforcer.Position()) >= told }, 20*time.Second, time.Millisecond)
	}}
	b.life(func(next func() agent.Status) {
		w.until(t, next, policy.OutcomeApplied, "")
		b.events.speak(nil)
		require.Eventually(t, func() bool { next(); return w.last().Event >= 2+more }, 20*time.Second, time.Millisecond)
	})
	port := regexp.MustCompile(`tcp \. (\d+) : accept`)
	for i, r := range w.all {
		require.Equal(t, policy.OutcomeApplied, r.Outcome)
		held := port.FindStringSubmatch(w.held[i])
		require.NotNil(t, held, "event %d was said to be applied while nothing was in force", r.Event)
		at, err := strconv.Atoi(held[1])
		require.NoError(t, err)
		require.GreaterOrEqual(t, at, 1000+int(r.Event), "said of what is not in the kernel")
	}
}

// A node says up to where the plane said that its table is right, and nothing of one
// that is not in force, or of which an older plane says nothing.
func TestANodeSaysUpToWhereItsTableIsRight(t *testing.T) {
	b, w := heard(t)
	at := func(seq uint64) {
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		b.plane.seq = seq
	}
	said := func(next func() agent.Status, seq uint64) {
		t.Helper()
		require.Eventually(t, func() bool { next(); return w.count() > 0 && w.last().Table == seq }, 20*time.Second, time.Millisecond)
	}
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		w.until(t, next, policy.OutcomeApplied, "")
		require.Zero(t, w.last().Table)
		at(7)
		said(next, 7) // the same table, confirmed
		b.plane.put(tableOf(9, allowTCP(444)), nil)
		at(9)
		said(next, 9)
		b.kernel.Refuse(errors.New("no room"))
		at(11)
		b.plane.put(tableOf(11, allowTCP(445)), nil)
		w.until(t, next, policy.OutcomeRefused, "no room")
		require.Zero(t, w.last().Table)
	})
}
