package disk

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// agedLog is a log of events of 100 bytes.
type agedLog struct {
	created time.Time
	times   []time.Time // of its events
	first   uint64
	asked   int // how often for a sequence
	fail    error
}

func (l *agedLog) Created() time.Time { return l.created }

func (l *agedLog) State(context.Context) (streams.State, error) {
	n := uint64(len(l.times))
	return streams.State{First: l.first, Last: l.first + n - 1, Messages: n, Bytes: 100 * n}, l.fail
}

func (l *agedLog) seqAt(_ context.Context, at time.Time) (uint64, error) {
	l.asked++
	seq := l.first - 1
	for _, t := range l.times {
		if !t.After(at) {
			seq++
		}
	}
	return seq, l.fail
}

func TestThePaceIsThatOfTheLastDay(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		age    time.Duration
		events []time.Duration // how long ago each was
		want   uint64
		known  bool
		asked  int
	}{
		"a log younger than an hour has none": {age: time.Hour - 1, events: []time.Duration{time.Minute}},
		"one from tomorrow has none":          {age: -day, events: []time.Duration{0}},
		"that of an hour is taken for a day's": {
			age: time.Hour, events: []time.Duration{time.Minute, time.Second}, want: 24 * 200, known: true,
		},
		"half a day counts twice":             {age: day / 2, events: []time.Duration{day / 2, time.Second}, want: 2 * 200, known: true},
		"what is older than a day counts not": {age: 9 * day, events: []time.Duration{8 * day, day + 1, day, day - 1, 0}, want: 200, known: true, asked: 1},
		"nothing for a day is nothing a day":  {age: 9 * day, events: []time.Duration{8 * day}, known: true, asked: 1},
		"nor has an empty log any growth":     {age: 9 * day, known: true, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []uint64{1, 501} {
				log := &agedLog{created: now.Add(-c.age), first: first}
				for _, ago := range c.events {
					log.times = append(log.times, now.Add(-ago))
				}
				p := NewPace(PaceOptions{Log: log, SeqAt: log.seqAt})
				p.now = func() time.Time { return now }
				require.NoError(t, p.measure(t.Context()))
				got, known := p.PerDay()
				require.Equal(t, c.want, got)
				require.Equal(t, c.known, known)
				require.Equal(t, c.asked, log.asked)
			}
		})
	}
}

func TestAPaceThatWasMeasuredOutlivesALogThatIsAway(t *testing.T) {
	now := time.Now()
	log := &agedLog{created: now.Add(-2 * day), first: 1, times: []time.Time{now}}
	p := NewPace(PaceOptions{Log: log, SeqAt: log.seqAt})
	log.fail = errors.New("away")
	require.ErrorIs(t, p.measure(t.Context()), log.fail)
	_, known := p.PerDay()
	require.False(t, known)
	log.fail = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Run(ctx), "it ends with its context, and has measured")
	log.fail = errors.New("away again")
	require.ErrorIs(t, p.measure(t.Context()), log.fail)
	got, known := p.PerDay()
	require.True(t, known)
	require.EqualValues(t, 100, got)
}

func TestTheLogsRoomEndsWhereWritesAreRefused(t *testing.T) {
	g := NewGuard(Options{Dir: "d", LogDir: "nats", MinFree: 256 * mib})
	free := map[string]uint64{"d": 3 * mib, "nats": 1000 * mib}
	g.free = func(dir string) (uint64, error) { return free[dir], nil }
	room, known := g.LogRoom()
	require.True(t, known)
	require.EqualValues(t, 744*mib, room, "of the log's own file system")
	free["nats"] = 255 * mib
	room, known = g.LogRoom()
	require.True(t, known)
	require.Zero(t, room)
	g.free = func(string) (uint64, error) { return 0, errors.ErrUnsupported }
	_, known = g.LogRoom()
	require.False(t, known, "what cannot be measured")
	g = NewGuard(Options{Dir: "d"})
	g.free = func(string) (uint64, error) { return mib, nil }
	_, known = g.LogRoom()
	require.False(t, known, "the disk of another server")
}
