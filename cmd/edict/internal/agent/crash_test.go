package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/test/crashfs"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/node"
)

// acceptedVersion is what the state on a disk says was accepted.
func (d disk) acceptedVersion(t *testing.T) (highest uint64) {
	t.Helper()
	var state struct {
		Accepted []struct{ Version uint64 }
	}
	if text, there := d.Files(dir)[tree.AcceptedFile]; there {
		require.NoError(t, json.Unmarshal([]byte(text), &state), "%q", text)
	}
	for _, a := range state.Accepted {
		highest = max(highest, a.Version)
	}
	return highest
}

// installing is a disk with a set, and the next one.
type installing struct {
	disk       disk
	exchange   bool
	before     node.Artifacts
	next       node.Artifacts
	old, fresh map[string]string
}

func newInstalling(t *testing.T, exchange bool, before node.Artifacts) *installing {
	t.Helper()
	// The next set retires its signer, so that half of it would lock the node out.
	next := release{version: 6, signer: "second", authorizes: []string{"second"}}.make()
	i := &installing{exchange: exchange, before: before, next: next, old: files(before), fresh: files(next)}
	d := newDisk(t, exchange)
	if len(before.Items) > 0 {
		require.NoError(t, d.open(t, agent.Options{}).Offer(before))
	} else {
		// Nobody trusts the second signer yet.
		i.next = release{version: 6}.make()
		i.fresh = files(i.next)
	}
	i.disk = disk{d.Settle(0)}
	return i
}

// judge says which set lies on a disk, which must be one of the two.
func (i *installing) judge(t *testing.T, d disk, when string) string {
	t.Helper()
	switch got := d.set(); {
	case maps.Equal(got, i.fresh):
		require.EqualValues(t, 6, d.acceptedVersion(t), "%s: what is used was accepted", when)
		return "new"
	case maps.Equal(got, i.old):
		return "old"
	default:
		t.Fatalf("%s: neither set lies there, but %v", when, slices.Sorted(maps.Keys(d.Files(dir))))
		return ""
	}
}

func TestACrashAtAnyStepOfAnInstallLeavesTheOldSetOrTheNew(t *testing.T) {
	gen.Unraced()
	trusted := release{version: 5, authorizes: []string{"primary", "second"}}.make()
	for _, exchange := range []bool{true, false} {
		for _, before := range []node.Artifacts{trusted, {}} {
			i := newInstalling(t, exchange, before)
			for _, left := range crashfs.Afters {
				t.Run(fmt.Sprintf("exchange %v, first %v, %v", exchange, len(before.Items) == 0, left), func(t *testing.T) {
					i.crashEverywhere(t, left)
				})
			}
		}
	}
}

func (i *installing) crashEverywhere(t *testing.T, left crashfs.After) {
	whole := disk{i.disk.Settle(0)}
	require.NoError(t, whole.open(t, agent.Options{}).Offer(i.next))
	steps := whole.Steps()
	require.Equal(t, "new", i.judge(t, whole, "uninterrupted"))

	seen, recoveries := map[string]int{}, 0
	for step := 1; step <= steps; step++ {
		when := fmt.Sprintf("before step %d of %d", step, steps)
		d := disk{i.disk.Settle(step)}
		require.ErrorIs(t, d.open(t, agent.Options{}).Offer(i.next), crashfs.ErrCrash)
		after := disk{d.Crash(left)}
		if i.exchange {
			i.judge(t, after, when+", before the agent is back")
		}
		if len(i.before.Items) > 0 { // what ends a first install is the same
			recoveries += i.crashAgain(t, after, left, when)
		}

		a := after.open(t, agent.Options{})
		lies := i.judge(t, after, when)
		require.Equal(t, after.acceptedVersion(t) == 6, lies == "new", "%s: what was accepted is used", when)
		seen[lies]++
		require.Equal(t, after.acceptedVersion(t), a.Version())
		require.NoError(t, a.Offer(i.next))
		require.Equal(t, "new", i.judge(t, after, when+", offered again"))
		require.NoError(t, a.Offer(i.before), "refused, or nothing at all")
		require.Equal(t, "new", i.judge(t, after, when+", the old one replayed"))
		require.Equal(t, whole.Files("."), after.Files("."), "nothing else is left")
	}
	t.Logf("%d steps, and %d of what ends them: %v", steps, recoveries, seen)
	require.Positive(t, seen["old"])
	require.Positive(t, seen["new"])
}

// crashAgain crashes at every step of what ends an interrupted install.
func (i *installing) crashAgain(t *testing.T, d disk, left crashfs.After, when string) int {
	whole := disk{d.Settle(0)}
	whole.open(t, agent.Options{})
	for step := 1; step <= whole.Steps(); step++ {
		again := disk{d.Settle(step)}
		_, err := agent.Open(again.options(agent.Options{}))
		require.ErrorIs(t, err, crashfs.ErrCrash)
		twice := disk{again.Crash(left)}
		twice.open(t, agent.Options{})
		i.judge(t, twice, fmt.Sprintf("%s, then before step %d of the recovery", when, step))
	}
	return whole.Steps()
}

func TestTheNextStartClearsAwayWhatWasCutOff(t *testing.T) {
	d := newDisk(t, true)
	for _, name := range []string{"accepted.json.next", "on-change.done.next"} {
		require.NoError(t, d.WriteFile(dir+"/"+name, []byte("{")))
	}
	before := d.Files(".")
	d.open(t, agent.Options{})
	require.Len(t, d.Files("."), len(before)-2)
}

func TestASetThatWasDamagedOnDiskIsInstalledAgain(t *testing.T) {
	d := newDisk(t, true)
	set := release{version: 5}.make()
	require.NoError(t, d.open(t, agent.Options{}).Offer(set))
	require.NoError(t, d.RemoveAll(dir+"/mgmt/agent.json"))
	require.NoError(t, d.WriteFile(dir+"/mgmt/vertices/more.json", []byte("{}")))
	a := d.open(t, agent.Options{})
	require.NoError(t, a.Offer(release{version: 4}.make()))
	require.NotEqual(t, files(set), d.set(), "an older one heals nothing")
	require.NoError(t, a.Offer(set))
	require.Equal(t, files(set), d.set())
}

func TestASetThatCameWithTheBundleIsJudgedLikeAnyOther(t *testing.T) {
	d := newDisk(t, true)
	require.NoError(t, d.MkdirAll(dir+"/mgmt/vertices"))
	set := release{version: 5}.make()
	for name, text := range files(set) {
		require.NoError(t, d.WriteFile(dir+"/"+name, []byte(text)))
	}
	a := d.open(t, agent.Options{})
	require.EqualValues(t, 5, a.Version())
	require.EqualValues(t, 5, d.acceptedVersion(t))
	require.Equal(t, files(set), d.set())

	forged := newDisk(t, true)
	require.NoError(t, forged.MkdirAll(dir+"/mgmt"))
	require.NoError(t, forged.WriteFile(dir+"/mgmt/agent.json", []byte("{}")))
	var why error
	a = forged.open(t, agent.Options{Refused: func(err error) { why = err }})
	require.ErrorContains(t, why, "agent agent: malformed")
	require.NoError(t, a.Offer(set))
	require.Equal(t, files(set), forged.set())
}

func TestTheCommandRunsAfterEachSetAndAgainWhenItWasCutOff(t *testing.T) {
	d := newDisk(t, true)
	run := func(onChange func(context.Context, uint64) error) (offer func(release), stop func()) {
		a := d.open(t, agent.Options{Server: "http://127.0.0.1:1", OnChange: onChange, Retry: 1})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		return func(r release) { require.NoError(t, a.Offer(r.make())) }, func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	called := make(chan uint64, 1)
	offer, stop := run(func(ctx context.Context, version uint64) error {
		called <- version
		<-ctx.Done() // killed while it runs
		return ctx.Err()
	})
	offer(release{version: 5})
	require.EqualValues(t, 5, <-called)
	stop()

	fails := 2
	_, stop = run(func(_ context.Context, version uint64) error {
		called <- version
		if fails--; fails >= 0 {
			return fmt.Errorf("not now")
		}
		return nil
	})
	for range 3 { // at the start, and until it succeeds
		require.EqualValues(t, 5, <-called)
	}
	stop()

	offer, stop = run(func(_ context.Context, version uint64) error { called <- version; return nil })
	offer(release{version: 6})
	require.EqualValues(t, 6, <-called, "not for 5 once more")
	stop()
}
