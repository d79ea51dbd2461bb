package projector

import (
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
)

// weighing is a message of a project's that weighs so many bytes.
func weighing(seq uint64, project uuid.UUID, bytes int, at time.Time) streams.Message {
	m := streams.Message{Seq: seq, Subject: "edict.log." + project.String() + ".node.a", Time: at}
	m.Body = make([]byte, max(0, bytes-m.Stored()))
	return m
}

func TestAShareOfTheLogIsADays(t *testing.T) {
	mine, others := uuid.MustParse("00000000-0000-4000-8000-00000000000a"), uuid.MustParse("00000000-0000-4000-8000-00000000000b")
	now := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	p := newDisk().open(t)
	defer func() { require.NoError(t, p.Close()) }()
	put := func(bytes int, at time.Time) {
		require.NoError(t, p.Apply([]streams.Message{weighing(p.Applied()+1, mine, bytes, at)}))
	}
	usage := func(project uuid.UUID) (u Usage) {
		p.Read(func(v *View) { u = v.Usage(project) })
		return u
	}
	require.Zero(t, usage(mine).Bytes(now))
	require.Zero(t, usage(mine).Bytes(time.Time{}))
	require.Equal(t, now, usage(mine).Below(1, now))
	put(5000, now.Add(-25*time.Hour))
	put(600, now.Add(-23*time.Hour))
	require.EqualValues(t, 600, usage(mine).Bytes(now))
	put(400, now)
	put(200, now.Add(-time.Hour)) // by a clock that went back
	require.EqualValues(t, 1200, usage(mine).Bytes(now))
	require.Zero(t, usage(others).Bytes(now))
	require.Equal(t, now, usage(mine).Below(1201, now))
	require.Equal(t, time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC), usage(mine).Below(1200, now), "the oldest hour is over")
	require.Equal(t, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), usage(mine).Below(600, now), "all of them are")
	require.EqualValues(t, 600, usage(mine).Bytes(now.Add(time.Hour)))
	require.EqualValues(t, 1200, usage(mine).Bytes(now.Add(-30*time.Hour)), "a worker whose clock is late")
	require.Zero(t, usage(mine).Bytes(now.Add(24*time.Hour)))

	require.NoError(t, p.Apply([]streams.Message{weighing(p.Applied()+1, others, 700, now.Add(24*time.Hour))}))
	require.Equal(t, map[uuid.UUID]uint64{others: 700}, taken(p, now.Add(24*time.Hour)), "nothing is kept of who is quiet")
	_, err := p.get(appendUsageKey(nil, mine))
	require.Error(t, err)
}

// taken are the bytes that each project took in the day before a time.
func taken(p *Projector, now time.Time) map[uuid.UUID]uint64 {
	out := map[uuid.UUID]uint64{}
	p.Read(func(v *View) {
		for project, u := range v.Usages() {
			out[project] = u.Bytes(now)
		}
	})
	return out
}

// TestEveryWorkerCountsAlike: whatever the batching, the restarts and the
// rebuilds, what projects took of the log is what a plain sum over it says.
func TestEveryWorkerCountsAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var msgs []streams.Message
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		for seq := range rapid.IntRange(1, 60).Draw(rt, "events") {
			at = at.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 5 * time.Hour, 30 * time.Hour}).Draw(rt, "later"))
			m := streams.Message{Seq: uint64(seq + 1), Subject: "edict.log.admission.a", Time: at}
			if n := rapid.IntRange(0, 4).Draw(rt, "project"); n > 0 {
				m = weighing(m.Seq, uuid.UUID{15: byte(n)}, rapid.IntRange(1, 1<<20).Draw(rt, "bytes"), at)
			}
			msgs = append(msgs, m)
		}
		now := at.Add(rapid.SampledFrom([]time.Duration{0, time.Hour, 20 * time.Hour}).Draw(rt, "now"))
		want := map[uuid.UUID]uint64{}
		for _, m := range msgs {
			c, _ := wire.ParseSubject(m.Subject)
			if c.Project != uuid.Nil && m.Time.Unix()/3600 > now.Unix()/3600-24 {
				want[c.Project] += uint64(m.Stored())
			}
		}
		d := newDisk()
		p := d.openBulk(rt, rapid.IntRange(1, 30).Draw(rt, "bulk"))
		defer func() { require.NoError(rt, p.Close()) }()
		for done := 0; done < len(msgs); {
			to := rapid.IntRange(done+1, len(msgs)).Draw(rt, "to")
			if rapid.Bool().Draw(rt, "in bulk") {
				require.NoError(rt, p.Rebuild(rt.Context(), cut(rt, msgs), uint64(to)))
			} else {
				require.NoError(rt, p.Apply(msgs[:to]))
			}
			done = to
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, p.Close())
				p = d.openBulk(rt, rapid.IntRange(1, 30).Draw(rt, "bulk"))
			}
		}
		got := taken(p, now)
		maps.DeleteFunc(got, func(_ uuid.UUID, bytes uint64) bool { return bytes == 0 })
		require.Equal(rt, want, got)
	})
}

func TestAUsageIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		u := Usage{last: rapid.Int64Range(UsageHours, 1<<40).Draw(rt, "last")}
		for i := range u.hours {
			u.hours[i] = rapid.Uint64().Draw(rt, "bytes") >> rapid.IntRange(0, 64).Draw(rt, "less")
		}
		got, err := readUsage(u.append(nil))
		require.NoError(rt, err)
		require.Equal(rt, u, got)
	})
	for _, b := range [][]byte{nil, make([]byte, 8), append(appendU64(nil, 1<<20), 0x80), append(appendU64(nil, 1<<20), make([]byte, UsageHours+1)...)} {
		_, err := readUsage(b)
		require.Error(t, err)
	}
}
