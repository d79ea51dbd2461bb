package projector

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

func limit(event, proj int, q policy.Quota) policy.ProjectQuotaUpdated {
	return policy.ProjectQuotaUpdated{ID: evt(event), Project: tenant(proj), Quota: q, CreatedBy: "root"}
}

// at is a message with a time of its own.
func at(m streams.Message, t time.Time) streams.Message {
	m.Time = t
	return m
}

func TestAProjectHasNoMoreThanItsQuota(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, s := range []struct {
		what string
		e    policy.Event
		want string
	}{
		{"a node before there is a quota", update(t, 1, 1, "a", "role", "web"), "applied"},
		{"a quota", limit(2, 1, policy.Quota{Policies: 1, Nodes: 3, LabelSets: 2}), "applied"},
		{"the same event", limit(2, 1, policy.Quota{Policies: 1, Nodes: 3, LabelSets: 2}), "duplicate"},
		{"a second node, of a second label set", update(t, 3, 1, "b", "role", "db"), "applied"},
		{"a third label set", update(t, 4, 1, "c", "role", "cache"), CodeQuotaExceeded},
		{"another node of a label set", update(t, 5, 1, "c", "role", "db"), "applied"},
		{"a fourth node", update(t, 6, 1, "d", "role", "db"), CodeQuotaExceeded},
		{"a node that is there", update(t, 7, 1, "c", "role", "web"), "applied"},
		{"a label set in the place of one that only it had", update(t, 8, 1, "b", "role", "cache"), "applied"},
		{"a label set where another node keeps the one before", update(t, 9, 1, "c", "role", "x"), CodeQuotaExceeded},
		{"another project", update(t, 10, 2, "z", "role", "y"), "applied"},
		{"a policy", revise(t, 11, 1, 1, 1, 0, "a", "role=web", 1), "applied"},
		{"a second policy", revise(t, 12, 1, 2, 2, 0, "b", "role=web", 1), CodeQuotaExceeded},
		{"a revision of the first", revise(t, 13, 1, 1, 3, 1, "a", "role=web", 2), "applied"},
		{"the event seen again", revise(t, 13, 1, 1, 3, 1, "a", "role=web", 2), "duplicate"},
		{"what has another fault", revise(t, 14, 1, 1, 4, 1, "a", "role=web", 2), CodeRevisionConflict},
		{"a deletion", remove(15, 1, 1), "applied"},
		{"a policy in its place", revise(t, 16, 1, 2, 2, 0, "b", "role=web", 1), "applied"},
		{"a removal", leave(17, 1, "a"), "applied"},
		{"a node in its place", update(t, 18, 1, "d", "role", "web"), "applied"},
		{"no quota", limit(19, 1, policy.Quota{}), "applied"},
		{"one more of all", update(t, 20, 1, "e", "role", "e"), "applied"},
	} {
		require.Equal(t, s.want, verdict(t, p, j.add(s.e)), s.what)
	}
	p.Read(func(v *View) {
		q := QuotasOf(v).Of(tenant(1), born)
		require.Equal(t, policy.Quota{Policies: 1, Nodes: 4, LabelSets: 3, BytesPerDay: q.Used.BytesPerDay, EventsPerDay: q.Used.EventsPerDay}, q.Used)
		require.EqualValues(t, 21, q.Seq)
		require.Len(t, QuotasOf(v).Projects(), 2)
	})
}

// A rollout ends though its project may add nothing: nodes that have what they refuse, or what
// its author takes back, must not keep it until there is room.
func TestARolloutEndsWhateverTheQuota(t *testing.T) {
	p, j := openFresh(t), &journal{}
	put := func(e policy.Event) string { return verdict(t, p, j.add(e)) }
	require.Equal(t, "applied", put(update(t, 1, 1, "a", "role", "web", "canary", "true")))
	require.Equal(t, "applied", put(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80)))
	require.Equal(t, "applied", put(staged(t, 3, 1, 2, 1, "role=web", 81)))
	require.Equal(t, "applied", put(aborting(t, 4, 1, 2, "canary=true")))
	require.Equal(t, "applied", put(limit(5, 1, policy.Quota{EventsPerDay: 1, BytesPerDay: 1})))
	require.Equal(t, CodeQuotaExceeded, put(opened(6, 1, 2, 2)))
	require.Equal(t, "applied", put(stopped(7, 1, 2, 1)), "the gate is broken, and all go back")
	require.Equal(t, "applied", put(limit(8, 1, policy.Quota{})))
	require.Equal(t, "applied", put(staged(t, 9, 1, 3, 1, "role=web", 82)))
	require.Equal(t, "applied", put(promoted(t, 10, 1, 3, "canary=true")))
	require.Equal(t, "applied", put(limit(11, 1, policy.Quota{EventsPerDay: 1, BytesPerDay: 1})))
	require.Equal(t, "applied", put(aborted(12, 1, 3)))
}

func TestAProjectAddsNoFasterThanItsQuota(t *testing.T) {
	p, j := openFresh(t), &journal{}
	hour := born.Truncate(time.Hour)
	n := 1
	put := func(when time.Time) string {
		n++
		return verdict(t, p, at(j.add(update(t, n, 1, "a", "role", "web")), when))
	}
	require.Equal(t, "applied", verdict(t, p, at(j.add(limit(1, 1, policy.Quota{EventsPerSecond: 2, EventsPerDay: 5})), hour)))
	require.Equal(t, "applied", put(hour))
	require.Equal(t, "applied", put(hour), "as many as a second has at once")
	require.Equal(t, CodeQuotaExceeded, put(hour))
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(499*time.Millisecond)))
	p.Read(func(v *View) { require.Equal(t, hour.Add(time.Second/2), QuotasOf(v).Of(tenant(1), hour).Ready) })
	require.Equal(t, "applied", put(hour.Add(500*time.Millisecond)), "half a second is one more")
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(501*time.Millisecond)))
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(-30*time.Second)), "a server's clock that went back a little gives nothing")
	require.Equal(t, "applied", put(hour.Add(time.Minute)))
	require.Equal(t, "applied", put(hour.Add(2*time.Minute)))
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(3*time.Minute)), "five a day")
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(24*time.Hour-time.Second)))
	p.Read(func(v *View) {
		require.Equal(t, hour.Add(24*time.Hour), QuotasOf(v).Of(tenant(1), hour.Add(time.Hour)).Ready)
	})
	require.Equal(t, "applied", put(hour.Add(24*time.Hour)))

	require.Equal(t, "applied", verdict(t, p, at(j.add(limit(100, 1, policy.Quota{BytesPerDay: 10})), hour.Add(24*time.Hour))))
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(25*time.Hour)), "bytes of the log")
	require.Equal(t, CodeQuotaExceeded, put(hour.Add(48*time.Hour)), "those of what is rejected count, too")
	require.Equal(t, "applied", put(hour.Add(73*time.Hour)))
}

// TestAClockThatWasAheadForADayOrMoreIsForgotten: one event of such a server took the rates of
// all projects until its time came, and the bytes of all days counted for one.
func TestAClockThatWasAheadForADayOrMoreIsForgotten(t *testing.T) {
	p, j := openFresh(t), &journal{}
	n := 0
	put := func(proj int, when time.Time) string {
		n++
		return verdict(t, p, at(j.add(update(t, n, proj, "n"+string(rune('0'+proj)), "n", strconv.Itoa(n))), when))
	}
	for proj := 1; proj <= 2; proj++ {
		n++
		require.Equal(t, "applied", verdict(t, p, at(j.add(limit(n, proj, policy.Quota{EventsPerSecond: 1, EventsPerDay: 3, BytesPerDay: 10_000})), born)))
	}
	require.Equal(t, "applied", put(1, born.AddDate(1, 0, 0)))
	require.Equal(t, "applied", put(1, born))
	require.Equal(t, CodeQuotaExceeded, put(1, born), "the rate holds")
	for day := range 40 {
		when := born.AddDate(0, 0, day+1)
		for hour := range 3 {
			require.Equal(t, "applied", put(2, when.Add(time.Duration(hour)*time.Hour)), "day %d", day)
		}
		require.Equal(t, CodeQuotaExceeded, put(2, when.Add(3*time.Hour)), "three a day")
	}
	p.Read(func(v *View) { require.Less(t, v.Usage(tenant(2)).Bytes(born.AddDate(0, 0, 40)), uint64(5000)) })
}

// TestAClockThatWasAheadHoldsNoRateUp: hours count on for a day, but a rate lets events pass
// at once: one more than it would have, each time that a clock goes back.
func TestAClockThatWasAheadHoldsNoRateUp(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	n := 0
	put := func(when time.Time) string {
		n++
		return verdict(t, p, at(j.add(update(t, n, 1, "a", "n", strconv.Itoa(n))), when))
	}
	n++
	require.Equal(t, "applied", verdict(t, p, at(j.add(limit(n, 1, policy.Quota{EventsPerSecond: 4, EventsPerDay: 100})), born)))
	for _, ahead := range []time.Duration{2 * time.Minute, time.Hour, 23 * time.Hour, 1000 * time.Hour} {
		for range 4 {
			require.Equal(t, "applied", put(born.Add(ahead)))
		}
		require.Equal(t, CodeQuotaExceeded, put(born.Add(ahead)))
		require.NoError(t, p.Close())
		p = d.open(t)
		require.Equal(t, "applied", put(born), "a clock that was %v ahead", ahead)
		for range 5 {
			require.Equal(t, CodeQuotaExceeded, put(born), "no second after %v", ahead)
		}
		p.Read(func(v *View) { require.Equal(t, born.Add(time.Second/4), QuotasOf(v).Of(tenant(1), born).Ready) })
		require.Equal(t, "applied", put(born.Add(time.Second/4)))
		require.Equal(t, CodeQuotaExceeded, put(born.Add(time.Second/4)))
	}
}

// TestAnOlderQuotaThatComesAgainDoesNotReplaceTheNewer, also after a restart.
func TestAnOlderQuotaThatComesAgainDoesNotReplaceTheNewer(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	first := limit(1, 1, policy.Quota{Nodes: 1})
	require.Equal(t, "applied", verdict(t, p, j.add(first)))
	require.Equal(t, "applied", verdict(t, p, j.add(limit(2, 1, policy.Quota{Nodes: 100}))))
	require.Equal(t, "duplicate", verdict(t, p, j.add(first)))
	require.NoError(t, p.Close())
	p = d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	require.Equal(t, "duplicate", verdict(t, p, j.add(first)))
	p.Read(func(v *View) { require.EqualValues(t, 100, QuotasOf(v).Of(tenant(1), born).Limits.Nodes) })
}

// However the log is cut up, and wherever a start comes between, quotas judge alike.
func TestQuotasJudgeAlikeHoweverTheLogIsRead(t *testing.T) {
	gen.Unraced()
	r := rand.New(rand.NewPCG(7, 7))
	j, when := &journal{}, born
	var msgs []streams.Message
	add := func(e policy.Event) {
		when = when.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		msgs = append(msgs, at(j.add(e), when))
	}
	for n := 1; n <= 600; n++ {
		if n%150 == 0 { // one event by a clock that is a year ahead
			right := when
			when = when.AddDate(1, 0, 0)
			add(update(t, 1000+n, 1, "a1", "role", "a"))
			when = right
		}
		proj, node := 1+r.IntN(2), string(rune('a'+r.IntN(12)))
		switch r.IntN(12) {
		case 0:
			add(limit(n, proj, policy.Quota{Nodes: uint64(r.IntN(6)), LabelSets: uint64(r.IntN(4)), EventsPerSecond: uint64(r.IntN(3)), EventsPerDay: uint64(r.IntN(200))}))
		case 1:
			add(leave(n, proj, node+string(rune('0'+proj))))
		default:
			add(update(t, n, proj, node+string(rune('0'+proj)), "role", string(rune('a'+r.IntN(5)))))
		}
	}
	one := openFresh(t)
	rejected := 0
	for _, m := range msgs {
		if verdict(t, one, m) == CodeQuotaExceeded {
			rejected++
		}
	}
	require.Greater(t, rejected, 50)
	require.Less(t, rejected, 500)
	want, err := one.Digest(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.Equal(t, want, foldedInPieces(t, msgs, func(left int) int { return 1 + r.IntN(min(left, 150)) }))
	}
}

// foldedInPieces is the digest of a store that is closed and opened again between pieces of
// the log, each so large as piece says of what is left.
func foldedInPieces(t *testing.T, msgs []streams.Message, piece func(left int) int) Digest {
	t.Helper()
	d := newDisk()
	for len(msgs) > 0 {
		p, n := d.open(t), piece(len(msgs))
		require.NoError(t, p.Apply(msgs[:n]))
		msgs = msgs[n:]
		require.NoError(t, p.Close())
	}
	p := d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	digest, err := p.Digest(t.Context())
	require.NoError(t, err)
	return digest
}

// Who watches over quotas is told of what a quota refused, and where it has a rate of all
// that was not applied.
func TestWhatAQuotaDidNotLetBeAppliedIsTold(t *testing.T) {
	type told struct {
		project   uuid.UUID
		perSecond uint64
	}
	var all []told
	p := openFresh(t)
	p.opt.Metrics.Unapplied = func(project uuid.UUID, perSecond uint64, _ time.Time) { all = append(all, told{project, perSecond}) }
	j := &journal{}
	for _, s := range []struct {
		e    policy.Event
		want []told
	}{
		{update(t, 1, 1, "a"), nil},
		{update(t, 1, 1, "a"), nil}, // a duplicate
		{limit(2, 1, policy.Quota{Nodes: 1}), nil},
		{update(t, 1, 1, "a"), nil},
		{update(t, 3, 1, "b"), []told{{tenant(1), 0}}},
		{update(t, 4, 2, "c"), nil},
		{limit(5, 1, policy.Quota{Nodes: 1, EventsPerSecond: 7}), nil},
		{update(t, 6, 1, "b"), []told{{tenant(1), 7}}},
		{update(t, 1, 1, "a"), []told{{tenant(1), 7}}},
		{leave(7, 1, "a"), nil},
		{leave(8, 1, "a"), []told{{tenant(1), 7}}},
	} {
		all = nil
		verdict(t, p, j.add(s.e))
		require.Equal(t, s.want, all, "%v", s.e)
	}
}
