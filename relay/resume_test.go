package relay

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
)

// counted are the sources of resumes.
type counted struct {
	quiet
	sources []string
}

func (c *counted) Resumed(source string) { c.sources = append(c.sources, source) }

func TestAResumeSendsExactlyWhatCameAfterOrOneWordToPull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		metrics := &counted{}
		p := w.start(t, newFakeStore(w.log), Options{Metrics: metrics})
		w.label(0, 0)
		p.store.foldAll()
		synctest.Wait()
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		between, _ := p.Position()
		w.revise(1, 1, 2)
		p.store.foldAll()
		synctest.Wait()
		first := w.server.first
		mark, ok := w.server.get(streams.SyncMarkSubject(nodeIDs[0].Partition(worldParts)))
		require.True(t, ok)
		at := func(policy int) string {
			m, ok := w.server.get(streams.NodeSubject(nodeIDs[0], policyIDs[policy].String()))
			require.True(t, ok)
			return "@" + strconv.FormatUint(m.Seq, 10)
		}
		last := w.server.last
		p0, p1 := "P0=rules1"+at(0), "P1=rules2"+at(1)
		pull := func(n uint64) string { return "pull@" + strconv.FormatUint(n, 10) }

		answered := map[string]int{}
		for _, tc := range []struct {
			name, lastID string
			want         []string
			source       string
		}{
			{"no id is live from now", "", nil, SourceLive},
			{"zero gets everything retained and one word to pull", "0", []string{pull(first - 1), p0, p1}, SourceDirect},
			{"an id of the stream before this one", strconv.FormatUint(first-1000, 10), []string{pull(first - 1), p0, p1}, SourceDirect},
			{"one below the first sequence", strconv.FormatUint(first-1, 10), []string{pull(first - 1), p0, p1}, SourceDirect},
			{"an id below the sync mark", strconv.FormatUint(mark.Seq-1, 10), []string{pull(mark.Seq - 1), p0, p1}, SourceDirect},
			{"the sync mark itself", strconv.FormatUint(mark.Seq, 10), []string{p0, p1}, SourceDirect},
			{"an id between two messages", strconv.FormatUint(between, 10), []string{p1}, SourceDirect},
			{"leading zeros are a number", "000" + strconv.FormatUint(between, 10), []string{p1}, SourceDirect},
			{"the end", strconv.FormatUint(last, 10), nil, SourceLive},
			{"beyond the end", strconv.FormatUint(last+1, 10), []string{pull(last)}, SourceLive},
			{"no stream ends so late", "99999999999999999999999999", []string{pull(last)}, SourceLive},
		} {
			for _, way := range []string{"ring", "direct", "a replica that lags", "too many subjects"} {
				t.Log(tc.name, "/", way)
				metrics.sources = nil
				covers := p.reach(way == "ring")
				w.server.lag, w.server.tooMany = 0, way == "too many subjects"
				if way == "a replica that lags" {
					w.server.lag = last - first
				}
				e := p.connect(t, nodeIDs[0], tc.lastID)
				time.Sleep(4 * time.Second) // a replica catches up
				synctest.Wait()
				require.Equal(t, http.StatusOK, e.status, tc.name)
				require.Equal(t, tc.want, e.kinds(t), tc.name)
				source := tc.source
				if n, err := strconv.ParseUint(tc.lastID, 10, 64); err == nil && n >= covers && source == SourceDirect {
					source = SourceRing
				}
				if source == SourceDirect && w.server.tooMany {
					source = SourceConsumer
				}
				require.Equal(t, []string{source}, metrics.sources)
				answered[source]++
				e.cancel()
				require.NoError(t, <-e.done)
			}
		}
		// Whether the hub began before or after the mark is the scheduler's
		// choice; what came after both updates of the rows is in its ring.
		rings := answered[SourceRing]
		require.GreaterOrEqual(t, rings, 2, "ring")
		require.Equal(t, 3*7-rings, answered[SourceDirect], "direct")
		require.Equal(t, 7, answered[SourceConsumer], "consumer")
		w.clean(t)
	})
}

// reach makes the ring forget everything, or remember it again, and says from
// where on it answers.
func (p *process) reach(whole bool) uint64 {
	h := p.hub.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.ring == nil {
		p.ring = h.ring
	}
	if h.ring = p.ring; !whole {
		h.ring = newRing(-1, math.MaxUint64)
	}
	return h.ring.floor
}

func TestAResumeFromBeforeTombstonesExpirePulls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		old, _ := p.Position()
		time.Sleep(20 * day)
		w.revise(0, 1, 2)
		p.store.foldAll()
		synctest.Wait()
		ask := func(n uint64) []string {
			e := p.connect(t, nodeIDs[0], strconv.FormatUint(n, 10))
			synctest.Wait()
			defer e.cancel()
			return without(e.kinds(t))
		}
		require.Equal(t, []string{"P0=rules2"}, ask(old))
		time.Sleep(8 * day)
		require.Equal(t, []string{"P0=rules2"}, ask(old), "the first mark is 28 days old")
		time.Sleep(2 * day)
		require.Equal(t, []string{"pull", "P0=rules2"}, ask(old), "what was told after it may have expired")
	})
}

func TestAResumeAndItsLiveMessagesMeetWithoutGapOrRepeat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		p.store.foldAll()
		synctest.Wait()
		n, _ := p.Position()
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		e := p.connect(t, nodeIDs[0], strconv.FormatUint(n, 10))
		for i := range 20 {
			w.revise(i%3, 1, 1+(i/3)%2)
			p.store.foldAll()
			if i%4 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		got := map[string]string{}
		id := n
		for _, f := range e.frames(t) {
			require.Greater(t, f.id, id)
			id = f.id
			require.NotContains(t, got, f.notice.ID)
			got[f.notice.ID] = f.event
		}
		for _, policy := range policyIDs {
			m, ok := w.server.get(streams.NodeSubject(nodeIDs[0], policy.String()))
			require.True(t, ok)
			require.Contains(t, got, m.Header[streams.HeaderEdictID][0])
		}
	})
}

func TestALastEventIDThatIsNoNumberIsRefusedBeforeTheStreamOpens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		synctest.Wait()
		for _, id := range []string{"x", "-1", "+1", "1.5", "1e3", "0x10", "١"} {
			e := p.connect(t, nodeIDs[0], id)
			require.ErrorIs(t, <-e.done, ErrBadLastEventID, id)
			require.Zero(t, e.status)
		}
	})
}

func TestTheReplayServiceAnswersAsAResumeDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		n, _ := p.Position()
		w.revise(1, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		end, _ := p.Position()
		type reply struct {
			header map[string][]string
			body   []byte
		}
		ask := func(body string) (replies []reply, err error) {
			err = p.replay(t.Context(), replayPrefix+"n0", []byte(body), func(h map[string][]string, b []byte) error {
				replies = append(replies, reply{h, b})
				return nil
			})
			return replies, err
		}
		got, err := ask(`{"after":` + strconv.FormatUint(n, 10) + `}`)
		require.NoError(t, err)
		require.Len(t, got, 2)
		m, _ := w.server.get(streams.NodeSubject(nodeIDs[0], policyIDs[1].String()))
		require.Equal(t, m.Body, got[0].body)
		require.Equal(t, []string{strconv.FormatUint(m.Seq, 10)}, got[0].header["Nats-Sequence"])
		require.Equal(t, m.Header[streams.HeaderEdictID], got[0].header[streams.HeaderEdictID])
		require.NotContains(t, m.Header, "Nats-Sequence", "the stored message is shared")
		require.Equal(t, reply{header: map[string][]string{"Edict-Up-To": {strconv.FormatUint(end, 10)}}}, got[1])
		got, err = ask(`{"after":0}`)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.Equal(t, []string{"true"}, got[2].header["Edict-Resync"])
		_, err = ask(`after 0`)
		require.Error(t, err)
		require.Error(t, p.replay(t.Context(), replayPrefix+"N_0", nil, nil))
	})
}

func TestWithoutAYoungDayMarkEveryResumePulls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(1, 1)
		a, c := w.workers[0], w.clients[0]
		require.True(t, a.startHub())
		require.True(t, c.pullFrom(a))
		a.h.days = nil // none could be written yet
		require.True(t, c.resume(a))
		require.True(t, c.pull)
	})
}
