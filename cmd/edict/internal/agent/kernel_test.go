//go:build linux

package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/fakenft"
	"github.com/edictdev/edict/policy"
)

// jammed is a kernel whose nft does not end by itself while it hangs, and which has no
// room for rules with a word.
type jammed struct {
	*fakenft.Kernel
	hangs atomic.Bool
	word  atomic.Pointer[string]
}

func (s *jammed) wait(ctx context.Context) error {
	if s.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *jammed) Run(ctx context.Context, tx *knftables.Transaction) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	if word := s.word.Load(); word != nil && strings.Contains(tx.String(), *word) {
		return errors.New("message too long")
	}
	return s.Kernel.Run(ctx, tx)
}

func (s *jammed) List(ctx context.Context) (*enforce.Listing, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Kernel.List(ctx)
}

// TestNftThatHangsIsGivenUpAndSaid: else nothing would be looked at any more, nor reported.
func TestNftThatHangsIsGivenUpAndSaid(t *testing.T) {
	b, said := heard(t)
	kernel := &jammed{Kernel: b.kernel}
	b.through, b.kernelPatience = kernel, 20*time.Millisecond
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		kernel.hangs.Store(true)
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.Eventually(t, func() bool { return next().State == agent.StateRefused }, 20*time.Second, time.Millisecond)
		require.Contains(t, next().Error, "nft did not end within 20ms, and was killed")
		said.until(t, next, policy.OutcomeRefused, "nft did not end within 20ms")
		kernel.hangs.Store(false)
		require.Eventually(t, func() bool { s := next(); return s.State == agent.StateCurrent && s.Version == 6 }, 20*time.Second, time.Millisecond)
		require.Contains(t, b.rules(), "tcp . 444 : accept")
	})
}

// TestATableThatCannotBePutBackDoesNotKeepTheNextOneOut: what the plane serves now may be
// just what makes it fit.
func TestATableThatCannotBePutBackDoesNotKeepTheNextOneOut(t *testing.T) {
	b := newBench(t)
	kernel := &jammed{Kernel: b.kernel}
	b.through = kernel
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		word := "443"
		kernel.word.Store(&word)
		b.kernel.Forget()
		s := next()
		require.Equal(t, agent.StateRefused, s.State)
		require.Contains(t, s.Error, "message too long")
		require.Contains(t, next().Error, "there is no table; it cannot be put right", "nobody may think that the rules are in force")
		require.NotContains(t, s.Error, "stays")

		b.plane.put(tableOf(6, allowTCP(80)), nil)
		s = next()
		require.Equal(t, agent.StateCurrent, s.State)
		require.EqualValues(t, 6, s.Version)
		require.Empty(t, s.Error)
		require.Contains(t, b.rules(), "tcp . 80 : accept")
	})
}

// TestRemoveDoesWhatItCan: one table that stays is no reason for the others to.
func TestRemoveDoesWhatItCan(t *testing.T) {
	b := newBench(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) { next() })
	broken := fakenft.NewAudit()
	broken.Refuse(errors.New("busy"))
	err := agent.RemoveTable(t.Context(), []enforce.Kernel{broken, b.kernel}, b.dir)
	require.ErrorContains(t, err, "busy")
	require.ErrorContains(t, err, "nft delete table inet")
	require.Empty(t, b.rules())
	require.NoFileExists(t, b.dir+"/table.json")
}

// TestRulesThatCannotBePutBackAreSaidToBeLost, to the plane and in the log, until they are
// in force again; then that is said.
func TestRulesThatCannotBePutBackAreSaidToBeLost(t *testing.T) {
	b, said := heard(t)
	var log syncBuffer
	b.log = slog.New(slog.NewTextHandler(&log, nil))
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		b.kernel.Refuse(errors.New("busy"))
		b.kernel.Forget()
		said.until(t, next, policy.OutcomeRefused, "there is no table; it cannot be put right")
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		require.Equal(t, agent.StateRefused, next().State)
		said.until(t, next, policy.OutcomeRefused, "there is no table; it cannot be put right")
		b.plane.put(nil, errors.New("away"))
		require.Contains(t, next().Error, "there is no table; it cannot be put right")
		b.kernel.Refuse(nil)
		require.Eventually(t, func() bool { next(); return strings.Contains(b.rules(), "tcp . 443 : accept") }, 20*time.Second, time.Millisecond)
	})
	require.Contains(t, log.String(), "the rules that were applied are not in force any more, and cannot be put back")
	require.NotContains(t, log.String(), "the rules in force stay")
	require.Contains(t, log.String(), "they are in force again")
}

// Whoever removes the rules while the kernel refuses every table takes them away for good:
// it must not be said that they stay.
func TestRulesThatAreLostWhileATableIsRefused(t *testing.T) {
	b, said := heard(t)
	b.plane.put(tableOf(5, allowTCP(443)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		b.kernel.Refuse(errors.New("busy"))
		b.plane.put(tableOf(6, allowTCP(444)), nil)
		said.until(t, next, policy.OutcomeRefused, "busy")
		require.NotContains(t, next().Error, "it cannot be put right")
		b.kernel.Forget()
		said.until(t, next, policy.OutcomeRefused, "there is no table; it cannot be put right")
		b.kernel.Refuse(nil)
		require.Eventually(t, func() bool { return next().State == agent.StateCurrent }, 20*time.Second, time.Millisecond)
		require.Contains(t, b.rules(), "tcp . 444 : accept")
	})
}

// refusesOnce is a kernel that refuses one transaction.
type refusesOnce struct {
	enforce.Kernel
	refuses atomic.Pointer[func()] // and what happens then; nil: none
}

func (r *refusesOnce) Run(ctx context.Context, tx *knftables.Transaction) error {
	if meanwhile := r.refuses.Swap(nil); meanwhile != nil {
		(*meanwhile)()
		return errors.New("busy")
	}
	return r.Kernel.Run(ctx, tx)
}

// TestRulesThatAreTakenBackAreNotLost, though they could not be put back just before: the
// kernel took another table in between, and held it otherwise.
func TestRulesThatAreTakenBackAreNotLost(t *testing.T) {
	b := newBench(t)
	otherwise := &forgetful{Kernel: b.kernel}
	kernel := &refusesOnce{Kernel: otherwise}
	b.through = kernel
	word, five := "444", tableOf(5, allowTCP(443))
	otherwise.word.Store(&word)
	b.plane.put(five, nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		meanwhile := func() { b.plane.put(tableOf(6, allowTCP(444)), nil) }
		kernel.refuses.Store(&meanwhile)
		b.kernel.Forget()
		require.Eventually(t, func() bool { return next().State == agent.StateRefused }, 20*time.Second, time.Millisecond)
		s := next()
		require.Contains(t, s.Error, "the kernel holds another ruleset than it was given")
		require.NotContains(t, s.Error, "cannot be put right")
		b.plane.put(five, nil)
		s = next()
		require.Empty(t, s.Error)
		require.Equal(t, agent.StateCurrent, s.State)
	})
}
