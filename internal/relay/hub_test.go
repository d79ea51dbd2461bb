package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestAStreamHearsWhatIsLive(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.node("b", "role=db")
	g := newStage(t, log, Options{})
	g.play()
	for i, accept := range []string{"", "text/event-stream", "text/event-stream;dialect=batch"} {
		a, b := g.open("a", "", accept), g.open("b", "", accept)
		web, all := 2*i, 2*i+1
		var want []policy.EventID
		var got []frame
		for _, event := range []func() policy.EventID{
			func() policy.EventID { log.revise(web, "role=web", 80); return log.idOf(web) },
			func() policy.EventID { log.revise(all, "role", 81); return log.idOf(all) },
			func() policy.EventID { log.node("a", "role=db"); return log.idNow(web) },
		} {
			want = append(want, event())
			g.play()
			got = append(got, a.next())
			require.Equal(t, want[len(want)-1], got[len(got)-1].ID)
		}
		require.Equal(t, "policy_updated", got[0].Event)
		require.Equal(t, "a."+got[0].ID.String(), got[0].NoticeID)
		require.JSONEq(t, `[]`, string(got[2].Payload.Rules))
		require.Equal(t, got[0].Payload.Revision, got[2].Payload.Revision)
		require.Equal(t, map[bool]string{true: "ed25519"}[i == 2], got[0].Alg)
		require.Equal(t, want[1], b.next().ID)
		log.drop(web)
		log.drop(all)
		log.node("a", "role=web")
		g.play()
		a.close()
		b.close()
	}
}

func TestWhoCannotBeServed(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	confirmed := true
	g := newStage(t, log, Options{Confirmed: func() bool { return confirmed }})
	g.play()
	status := func(node, last, accept string) int { return g.try(node, last, accept).res.StatusCode }
	require.Equal(t, http.StatusNotFound, status("nobody", "", ""))
	require.Equal(t, http.StatusBadRequest, status("a", "1.5", ""))
	require.Equal(t, http.StatusBadRequest, status("a", "-1", ""))
	require.Equal(t, http.StatusNotAcceptable, status("a", "", "text/event-stream;dialect=klingon"))
	require.Equal(t, http.StatusNotAcceptable, status("a", "", "text/event-stream;tables=maybe"))
	require.Equal(t, http.StatusOK, status("a", "18446744073709551616", ""))
	confirmed = false
	require.Equal(t, http.StatusServiceUnavailable, status("a", "", ""))
}

// whatever draws one event and writes it.
func (l *script) whatever(t *rapid.T, nodes, policies int) {
	node := fmt.Sprintf("n%d", rapid.IntRange(0, nodes-1).Draw(t, "node"))
	p := rapid.IntRange(0, policies-1).Draw(t, "policy")
	color := func() string { return "color=" + rapid.SampledFrom([]string{"red", "green", "blue"}).Draw(t, "color") }
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		l.removeNode(node)
	case 1, 2, 3:
		l.node(node, color())
	case 4:
		if _, ok := l.heads[p]; ok {
			l.drop(p) // its id is used up: what is published under it later is rejected
			break
		}
		fallthrough
	case 5, 6:
		l.revise(p, "color in (red,green)", rapid.IntRange(1, 3).Draw(t, "port"))
	default:
		l.revise(p, color(), rapid.IntRange(1, 3).Draw(t, "port"))
	}
}

// said is what a client holds of each policy after frames: a word to pull makes
// it hold what pulled says.
func said(held map[string]string, frames []frame, pulled map[string]string) map[string]string {
	before := held
	held = map[string]string{}
	maps.Copy(held, before)
	for _, f := range frames {
		if f.Event == wire.TypeStateUpdated {
			held = maps.Clone(pulled)
			continue
		}
		if held[f.Payload.Policy] = f.Payload.Fingerprint; string(f.Payload.Rules) == "[]" {
			delete(held, f.Payload.Policy)
		}
	}
	return held
}

// rows are what a node has now, as the read model says.
func (g *stage) rows(node string) map[string]string {
	past, err := g.store.Past(policy.NodeID(node), 0, nil)
	held := map[string]string{}
	if err != nil {
		require.ErrorIs(g.t, err, projector.ErrUnknownNode)
		return held
	}
	for _, i := range past.Items {
		if !i.Gone {
			held[i.Policy.String()] = i.Fingerprint.String()
		}
	}
	return held
}

// end writes an event that every node hears of, and returns its id.
func (l *script) end(nodes int) policy.EventID {
	const last = 1 << 20
	for i := range nodes {
		l.node(fmt.Sprintf("n%d", i), "color=red")
	}
	l.revise(last, "color", len(l.msgs)%60000+1)
	return l.idOf(last)
}

// fewer has a property be tried at an n-th of the cases that are asked for, unless they are
// as many as in a campaign. Each of them here is two workers and dozens of streams.
func fewer(t *testing.T, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	asked := f.Value.String()
	cases, err := strconv.Atoi(asked)
	require.NoError(t, err)
	if cases > 100 {
		return
	}
	require.NoError(t, f.Value.Set(strconv.Itoa((cases+n-1)/n)))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(asked)) })
}

// Whoever hears live, in either form, and whoever comes back with any id that he
// heard, at this worker or at one that was just rebuilt, holds what the node has;
// ids rise, and one id says one thing.
func TestLiveAndResumedSayTheSame(t *testing.T) {
	const nodes, policies = 3, 4
	fewer(t, 10)
	rapid.Check(t, func(rt *rapid.T) {
		log := newScript(rt)
		for i := range nodes {
			log.node(fmt.Sprintf("n%d", i), "color=blue")
		}
		g := newStageOn(t, log, Options{HubBytes: rapid.SampledFrom([]int{0, 1, 2000}).Draw(rt, "hub bytes")}, projector.Options{}, lookSoon)
		defer g.close()
		g.play()
		live := map[string][]*reader{}
		for i := range nodes {
			node := fmt.Sprintf("n%d", i)
			live[node] = []*reader{g.open(node, "", ""), g.open(node, "", "text/event-stream;dialect=batch")}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			log.whatever(rt, nodes, policies)
			if rapid.Bool().Draw(rt, "play") {
				g.play()
			}
		}
		end := log.end(nodes)
		g.play()
		again := newStage(t, log, Options{})
		defer again.close()
		again.play()

		for node, readers := range live {
			saying := map[policy.EventID]string{}
			note := func(frames []frame, after policy.EventID) {
				for _, f := range frames {
					if f.Event != wire.TypeStateUpdated {
						require.Greater(rt, f.ID, after, "ids rise")
						require.Equal(rt, cmp.Or(saying[f.ID], f.String()), f.String(), "one id says one thing")
						saying[f.ID] = f.String()
					}
					after = f.ID
				}
			}
			want := g.rows(node)
			var heard []frame
			for _, r := range readers {
				heard = r.until(end)
				note(heard, 0)
				require.Equal(rt, want, said(nil, heard, want))
			}
			for range 3 {
				i := rapid.IntRange(0, len(heard)-1).Draw(rt, "cursor")
				for _, at := range []*stage{g, again} {
					rest := at.open(node, heard[i].ID.String(), "")
					var frames []frame
					if heard[i].ID < end {
						frames = rest.until(end)
					}
					note(frames, heard[i].ID)
					// Only the removal of the node had it pull so far: it pulled nothing.
					require.Equal(rt, want, said(said(nil, heard[:i+1], map[string]string{}), frames, want), "after %s", heard[i].ID)
					rest.close()
				}
			}
		}
	})
}

// A reader that reads nothing holds up nobody, and hears the newest of each
// policy once it reads.
func TestASlowReaderHearsTheNewest(t *testing.T) {
	log := newScript(t)
	log.node("slow", "role=web")
	log.node("fast", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	for k, accept := range []string{"", "text/event-stream;dialect=batch"} {
		slow, fast := g.open("slow", "", accept), g.open("fast", "", accept)
		// A payload that fills what the system keeps of a stream, again and again.
		rules := manyRules()
		const rounds = 8
		for i := range rounds {
			rules[0].Ports.From = uint16(i + 1)
			log.reviseRules(2*k, "role=web", rules)
			g.play()
			require.Equal(t, log.idOf(2*k), fast.next().ID)
		}
		log.revise(2*k+1, "role=web", 1)
		g.play()
		frames := slow.until(log.idOf(2*k + 1))
		require.Less(t, len(frames), rounds, "it was spared what was superseded")
		require.Equal(t, log.idOf(2*k), frames[len(frames)-2].ID)
		for i := 1; i < len(frames); i++ {
			require.Greater(t, frames[i].ID, frames[i-1].ID)
		}
		log.drop(2 * k)
		log.drop(2*k + 1)
		g.play()
		slow.close()
		fast.close()
	}
}

// A hub whose bound is passed drops, says so, and its streams go on from the
// read model.
func TestAHubThatDropsGoesOnFromTheReadModel(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	counted := &counts{}
	g := newStage(t, log, Options{HubBytes: 1, Metrics: counted})
	g.play()
	r := g.open("a", "", "text/event-stream;dialect=batch")
	for i := range 20 {
		log.revise(i%3, "role=web", i+1)
		g.play()
		require.Equal(t, log.idOf(i%3), r.next().ID)
	}
	// It counts after it has said so. The relay may have begun after the first was folded.
	require.Eventually(t, func() bool { return counted.dropped.Load() >= 19 }, 20*time.Second, time.Millisecond)
}

// laggard is a fold that has handed over more than the disk has.
type laggard struct{ Store }

func (laggard) Applied() uint64 { return 1 }

// A stream may be told what the disk does not have yet. When the hub drops then,
// its id is not beyond the log's end.
func TestAHubThatDropsKnowsWhatItTold(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStageOn(t, log, Options{HubBytes: 1}, projector.Options{}, func(r *Relay) { r.store = laggard{r.store} })
	g.play()
	r := g.open("a", "", "text/event-stream;dialect=batch")
	for i := range 5 {
		log.revise(i, "role=web", i+1)
		g.play()
		require.Equal(t, log.idOf(i), r.next().ID)
	}
}

// counts is the Metrics of a test.
type counts struct {
	quiet
	dropped, delivered, clients atomic.Int64
	past, live                  atomic.Int64
}

func (c *counts) HubDropped(n int)        { c.dropped.Add(int64(n)) }
func (c *counts) Delivered(time.Duration) { c.delivered.Add(1) }
func (c *counts) Clients(n int)           { c.clients.Add(int64(n)) }
func (c *counts) Resumed(source string) {
	if source == SourcePast {
		c.past.Add(1)
	} else {
		c.live.Add(1)
	}
}

// Streams that join while the fold runs hear everything above their id once, in
// order: what they missed first, what is live then.
func TestStreamsJoinWhileTheFoldRuns(t *testing.T) {
	log := newScript(t)
	const nodes, policies, rounds = 8, 5, 30
	for i := range nodes {
		log.node(fmt.Sprintf("n%d", i), "role=web")
	}
	g := newStage(t, log, Options{})
	g.play()
	start := g.relay.Position()
	for i := range policies * rounds {
		log.revise(i%policies, "role=web", i/policies+1)
	}
	var readers errgroup.Group
	for i := range nodes * 4 {
		accept := []string{"", "text/event-stream;dialect=batch"}[i%2]
		node := fmt.Sprintf("n%d", i%nodes)
		readers.Go(func() error {
			at := start
			for at < log.idOf(policies-1) {
				r := g.try(node, at.String(), accept)
				for range 1 + i%7 {
					f, err := r.read()
					if err != nil {
						return err
					}
					if f.ID <= at {
						return fmt.Errorf("%s after %s", f.ID, at)
					}
					if at = f.ID; at == log.idOf(policies-1) {
						break
					}
				}
				r.close()
			}
			return nil
		})
	}
	for g.fed < len(log.msgs) {
		require.NoError(t, g.store.Apply(log.msgs[g.fed:g.fed+1]))
		g.fed++
	}
	require.NoError(t, readers.Wait())
}

// Hundreds of streams hear of one event, and come back at once.
func TestHundredsOfStreams(t *testing.T) {
	log := newScript(t)
	const streams = 100
	for i := range streams {
		log.node(fmt.Sprintf("n%d", i), "role=web", fmt.Sprintf("n=%d", i))
	}
	counted := &counts{}
	g := newStage(t, log, Options{Metrics: counted})
	g.play()
	for _, last := range []string{"", g.relay.Position().String()} {
		var all [streams]*reader
		var g2 errgroup.Group
		g2.SetLimit(64)
		for i := range all {
			g2.Go(func() error {
				all[i] = g.try(fmt.Sprintf("n%d", i), last, "text/event-stream;dialect=batch")
				return nil
			})
		}
		require.NoError(t, g2.Wait())
		if last == "" {
			log.revise(3, "role=web", 1)
			g.play()
		}
		for i, r := range all { // whoever heard of an event waits for nothing any more
			require.Equal(t, log.idOf(3), r.next().ID, i)
		}
		if last == "" {
			log.revise(1, "role=web", 1)
			log.revise(2, "n=7", 1)
			g.play()
		}
		merkle := 0
		for i, r := range all {
			f := r.next()
			require.Equal(t, log.idOf(1), f.ID, i)
			if f.Alg == artifact.AlgEd25519Merkle {
				merkle++
			}
		}
		if last == "" {
			require.Greater(t, merkle, streams*9/10, "one signature for many")
		}
		require.Equal(t, log.idOf(2), all[7].next().ID)
		for _, r := range all {
			r.close()
		}
	}
	require.Equal(t, int64(streams), counted.live.Load())
	require.Equal(t, int64(streams), counted.past.Load())
}

// lookSoon has streams of nodes that were removed look often.
func lookSoon(r *Relay) { r.look = time.Millisecond }

// A node that was removed hears what went, and when it comes back what it has.
func TestAStreamOutlivesItsNode(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.revise(1, "role=web", 1)
	for _, bytes := range []int{0, 1} {
		g := newStageOn(t, log, Options{HubBytes: bytes}, projector.Options{}, lookSoon)
		g.play()
		r := g.open("a", "", "")
		log.revise(1, "role=web", 2+bytes)
		g.play()
		r.next() // so the hub lets the stream have live messages
		log.removeNode("a")
		g.play()
		if bytes == 0 {
			f := r.next()
			require.Equal(t, log.idNow(1), f.ID)
			require.Equal(t, "[]", string(f.Payload.Rules))
		} else {
			require.Equal(t, artifact.ReasonResync, r.next().Payload.Reason, "what went was dropped by the hub")
		}
		log.node("a", "role=web")
		g.play()
		f := r.next()
		require.Equal(t, log.idNow(1), f.ID)
		require.NotEqual(t, "[]", string(f.Payload.Rules))
	}
}

// A stream that was not sent what took its rows away, because it was to join again and
// its node is gone, must pull: there is nothing to join, and nobody else says so.
func TestARemovalThatWasNotSentMeansAPull(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.revise(1, "role=web", 1)
	for _, accept := range []string{"", "text/event-stream;dialect=batch"} {
		// The log's head is told once the removal is folded, so the stream came before it.
		removed := make(chan struct{})
		var g *stage
		g = newStageOn(t, log, Options{Head: func(ctx context.Context) (uint64, error) {
			select {
			case <-removed:
				return g.store.Applied(), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}, projector.Options{}, lookSoon)
		g.play()
		at := g.relay.Position()
		r := g.open("a", "", accept)
		log.removeNode("a")
		g.play()
		close(removed)
		f := r.next()
		require.Equal(t, wire.TypeStateUpdated, f.Event)
		require.Equal(t, artifact.ReasonResync, f.Payload.Reason)
		require.Equal(t, at, f.ID, "nothing is lost to who comes back with it")

		log.node("a", "role=web")
		g.play()
		f = r.next()
		require.Equal(t, log.idNow(1), f.ID)
		require.NotEqual(t, "[]", string(f.Payload.Rules))
	}
}

// All streams are told of a new key, under the one before it, before anything
// that it signed.
func TestStreamsHearOfANewKeyFirst(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	for i, accept := range []string{"", "text/event-stream;dialect=batch"} {
		g := newStage(t, log, Options{})
		g.play()
		start := g.relay.Position()
		quiet, busy := g.open("a", "", accept), g.open("a", "", accept)
		next, err := artifact.GenerateSigner()
		require.NoError(t, err)
		g.ring.Set(artifact.Keys{Current: next, Previous: testSigner, Until: time.Now().Add(time.Hour)})
		f := quiet.next()
		require.Equal(t, artifact.TypeKeyRotated, f.Event)
		require.Equal(t, start, f.ID, "its id is where the client is")
		log.revise(i, "role=web", 1)
		g.play()
		late := g.open("a", start.String(), accept)
		for _, r := range []*reader{busy, late} {
			f := r.next()
			require.Equal(t, artifact.TypeKeyRotated, f.Event)
			require.Equal(t, testSigner.KeyID(), f.Key)
		}
		for _, r := range []*reader{quiet, busy, late} {
			f := r.next()
			require.Equal(t, log.idOf(i), f.ID)
			require.Equal(t, next.KeyID(), f.Key)
		}
		g.ring.Set(artifact.Keys{Current: next})
		require.Eventually(t, func() bool { // who comes before the hub has looked hears of the key once more
			after := g.open("a", start.String(), accept)
			require.NoError(t, after.trust.Add(artifact.PlanePolicy, next.KeyID(), next.PublicKey(), time.Time{}))
			return after.next().ID == log.idOf(i)
		}, 20*time.Second, time.Millisecond, "the transition is over")
	}
}

// Messages about tables go to whom they concern, under the end of what was sent.
func TestMessagesAboutTables(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.node("b", "role=db")
	// The fold is at the log's head whenever a client comes. Read later, the head would
	// be that of a client that has to join again, and resumes instead of being notified.
	g := newStage(t, log, Options{Head: func(context.Context) (uint64, error) { return 0, nil }})
	g.play()
	plain, enforcing, other := g.open("a", "", ""), g.open("a", "", "text/event-stream;tables=true"), g.open("b", "", "text/event-stream;tables=true")
	log.node("b", "role=dc")
	g.play()
	seq := g.store.Applied()
	g.relay.hub.notifyTables(seq, nil, []policy.NodeID{"a"})
	f := enforcing.next()
	require.Equal(t, "node_state_updated", f.Event)
	require.Equal(t, "datapath", f.Payload.Reason)
	require.Equal(t, policy.EndOf(stageBase, seq), f.ID)
	require.Equal(t, "a."+f.ID.String(), f.NoticeID)

	log.revise(1, "role=web", 1)
	log.revise(2, "role", 1)
	// It is known of events whose rows are yet to come: the rows come first.
	g.relay.hub.notifyTables(seq+2, []policy.NodeID{"a"}, nil)
	g.relay.hub.notifyTables(seq, nil, []policy.NodeID{"b"})
	require.Equal(t, "datapath", other.next().Payload.Reason, "the hub has seen both")
	g.play()
	for _, r := range []*reader{plain, enforcing} {
		require.Equal(t, log.idOf(1), r.next().ID)
		require.Equal(t, log.idOf(2), r.next().ID)
		require.Equal(t, policy.EndOf(stageBase, seq+2), r.next().ID)
	}
	require.Equal(t, log.idOf(2), other.next().ID, "nothing of another node")
}

// Who comes back after events, and had heard of his table, is not notified of it once more
// when it is found, later, that they changed it.
func TestAMessageAboutATableIsForThoseWhoWereThere(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{Head: func(context.Context) (uint64, error) { return 0, nil }})
	g.play()
	const enforcing = "text/event-stream;tables=true"
	there := g.open("a", "", enforcing)
	log.node("a", "role=db")
	g.play()
	seq := g.store.Applied()
	came := g.open("a", policy.EndOf(stageBase, seq).String(), enforcing)
	log.revise(1, "role=db", 1)
	g.relay.hub.notifyTables(seq, nil, []policy.NodeID{"a"})
	require.Equal(t, "datapath", there.next().Payload.Reason)
	g.play()
	require.Equal(t, log.idOf(1), came.next().ID, "no message about the table before it")
}

// A relay that ends takes its streams with it, and opens no more.
func TestStreamsEndWithTheRelay(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	r := g.open("a", "", "")
	g.stop()
	_, err := r.read()
	require.ErrorIs(t, err, io.EOF, "in order")
	require.Error(t, g.relay.Ready())
}

// The legacy form has its own members, and a nonce for each delivery.
func TestALegacyReader(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.revise(1, "role=web", 1)
	g := newStage(t, log, Options{Dialect: func(policy.NodeID) policy.Dialect { return policy.DialectLegacy }})
	g.play()
	var nonces []string
	for range 2 {
		r := g.open("a", "0", "")
		r.plain = true
		require.Equal(t, wire.TypeStateUpdated, r.next().Event)
		var e struct {
			Type    string          `json:"event_type"`
			ID      string          `json:"event_id"`
			Nonce   string          `json:"nonce"`
			Payload json.RawMessage `json:"payload"`
		}
		require.NoError(t, json.Unmarshal(r.next().Data, &e))
		require.Equal(t, "policy_updated", e.Type)
		require.Equal(t, "a."+log.idOf(1).String(), e.ID)
		nonces = append(nonces, e.Nonce)
	}
	require.NotEqual(t, nonces[0], nonces[1])
	current := g.open("a", "0", "text/event-stream;dialect=current")
	require.Equal(t, "resync", current.next().Payload.Reason, "the reader chooses")
}

// What cannot be said whole is said in part, with a count.
func TestRulesThatCannotBeSaidAreCounted(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	r := g.open("a", "", "")
	all := netip.MustParsePrefix("::/0")
	extended := policy.Rule{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "a", DestinationSelector: "b"}
	plain := policy.Rule{Action: policy.Log, Protocol: policy.Any, Source: all, Destination: all}
	for i, rules := range [][]policy.Rule{{extended, plain}, {extended}} {
		log.reviseRules(i, "role=web", rules)
		g.play()
		f := r.next()
		require.Equal(t, 1, f.Payload.Omitted)
		require.Equal(t, i == 1, string(f.Payload.Rules) == "[]")
	}
}

// What a node holds is told as it is released and withdrawn, live and on resume
// alike; of a document that no line has room for it is told to pull.
func TestArtifactsAreTold(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	r := g.open("a", "", "text/event-stream;dialect=batch")
	log.release("a", 1, "one", "two")
	g.play()
	first := []frame{r.next(), r.next(), r.next()}
	for i, name := range []string{"agent", "one", "two"} {
		f := first[i]
		require.Equal(t, policy.NewEventID(stageBase, 2, uint32(policy.NumberArtifact+i)), f.ID)
		require.Equal(t, "artifact_updated", f.Event)
		require.Equal(t, name, f.Payload.Name)
		require.Contains(t, *f.Payload.Document, name+" <&>"[:4*min(i, 1)])
	}
	log.release("a", 2, "big", "two")
	g.play()
	second := []frame{r.next(), r.next(), r.next(), r.next()}
	require.Equal(t, "one", second[0].Payload.Name)
	require.Empty(t, *second[0].Payload.Document)
	require.Equal(t, policy.NewEventID(stageBase, 3, policy.NumberWithdrawn+1), second[0].ID)
	require.Equal(t, "node_state_updated", second[2].Event)
	require.Equal(t, "a."+second[2].ID.String(), second[2].NoticeID)
	again := g.open("a", first[2].ID.String(), "")
	require.Equal(t, texts(second), texts(again.until(second[3].ID)))
}

// Artifacts of two retes have one kind and name, and are told as two: live, on
// resume, after new labels, and as they go.
func TestArtifactsOfTwoRetesAreToldApart(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	r := g.open("a", "", "text/event-stream;dialect=batch")
	log.release("a", 1, "flor")
	g.play()
	live := []frame{r.next(), r.next()} // the stream has joined what is live
	log.releaseOf("two.example", "a", 1, "flor")
	log.node("a", "role=db")
	g.play()
	live = append(live, r.next(), r.next())
	said := func(f frame) string { return f.Payload.Name + " " + f.Payload.Rete }
	want := []string{"agent ", "flor ", "agent two.example", "flor two.example"}
	for i := range want {
		require.Equal(t, want[i], said(live[i]))
	}
	require.Equal(t, policy.NewEventID(stageBase, 3, policy.NumberArtifact), live[2].ID)
	var resumed []frame
	late := g.open("a", "0", "text/event-stream;dialect=batch")
	require.Equal(t, "node_state_updated", late.next().Event)
	for i := range want {
		resumed = append(resumed, late.next())
		require.Equal(t, want[i], said(resumed[i]))
		require.Equal(t, policy.NewEventID(stageBase, 4, uint32(policy.NumberArtifact+i)), resumed[i].ID, "each has an id")
		require.Equal(t, *live[i].Payload.Document, *resumed[i].Payload.Document)
	}
	log.releaseOf("two.example", "a", 2, "wg")
	g.play()
	for _, want := range []string{"flor two.example", "agent two.example", "wg two.example"} {
		f := late.next()
		require.Equal(t, want, said(f))
		require.Equal(t, want == "flor two.example", *f.Payload.Document == "")
	}
}

// what the hub has for a stream that nobody serves.
func (g *stage) meets(node string) *stream {
	s := &stream{node: policy.NodeID(node), relay: g.relay, wake: make(chan struct{}, 1), place: -1}
	s.state.Store(writing)
	return s
}

// What was on its way to the hub when a stream joined is in its past, where it
// may stand under later ids.
func TestWhatIsInThePastIsNotLive(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStageOn(t, log, Options{}, projector.Options{}, func(r *Relay) { r.hub.connected.Add(1) })
	g.play()
	start := g.relay.Position()
	g.stop() // the test makes its passes
	h := g.relay.hub
	<-g.ended
	g.store.Feed(h.inbox)
	h.over = false
	log.revise(1, "role", 1)
	log.revise(2, "role", 1)
	log.node("a", "role=db")
	g.play(1, 1, 1)
	s := g.meets("a")
	_, err := s.resume(t.Context(), start)
	require.NoError(t, err)
	g.headIsKnown()
	log.revise(3, "role", 1)
	g.play()
	h.pass()
	var ids []policy.EventID
	for _, n := range s.queue.waiting {
		ids = append(ids, n.id)
	}
	require.Equal(t, []policy.EventID{policy.NewEventID(stageBase, 4, 0), policy.NewEventID(stageBase, 4, 1), log.idOf(3)}, ids)
}

// A stream that is held and joins again waits for the head that was asked for when
// its client came; until then it gets nothing live.
func TestAHeldStreamThatJoinsAgainAsksForNoOtherHead(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	start := g.relay.Position()
	g.stop() // the test makes its passes
	h := g.relay.hub
	<-g.ended
	g.store.Feed(h.inbox)
	h.over = false
	s := g.meets("a")
	s.at = start
	_, err := s.resume(t.Context(), start)
	require.NoError(t, err)
	require.Equal(t, []*stream{s}, h.fresh.take())
	require.NoError(t, s.again(t.Context()))
	require.Empty(t, h.fresh.take())
	log.revise(1, "role", 1)
	g.play()
	h.pass()
	require.Empty(t, s.queue.waiting)
	h.release([]arrivals{{[]*stream{s}, g.store.Applied() - 1}})
	require.Len(t, s.queue.waiting, 1)
}

// While the log's leader does not answer, clients may come and go any number of times.
func TestAStreamThatLeftWaitsForNoHead(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	answers := make(chan error)
	g := newStage(t, log, Options{Head: func(ctx context.Context) (uint64, error) {
		select {
		case err := <-answers:
			return 1, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}})
	g.play()
	g.stop() // the test makes its passes
	h := g.relay.hub
	<-g.ended
	g.store.Feed(h.inbox)
	h.over = false
	var streams []*stream
	for range 3 {
		s := g.meets("a")
		_, err := s.resume(t.Context(), g.relay.Position())
		require.NoError(t, err)
		streams = append(streams, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.askHeads(ctx) }()
	streams[0].leave()
	streams[2].leave()
	answers <- errors.New("no leader")
	answers <- nil
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.post.heads) > 0
	}, 20*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Len(t, h.post.heads, 1)
	require.Len(t, h.post.heads[0].streams, 1)
	require.Same(t, streams[1], h.post.heads[0].streams[0])
}

// A worker that is behind answers at once, and tells nothing live before it has
// come to where the log was. What an event changed there for a row that the node
// keeps, which nobody is told of, it tells then: the client may have met an answer
// of a worker ahead in which the row stood above what the client heard last.
func TestAWorkerBehindAnswersAtOnceAndMissesNothing(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	log.revise(1, "role", 1)
	log.revise(2, "role", 1)
	log.node("a", "role=web", "x=y") // the rows stay, under higher ids
	log.revise(3, "role", 1)
	head := make(chan uint64)
	asked := make(chan struct{})
	g := newStage(t, log, Options{Head: func(ctx context.Context) (uint64, error) {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case h := <-head:
			return h, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}})
	require.NoError(t, g.store.Apply(log.msgs[:3]))
	g.fed = 3
	half := policy.NewEventID(stageBase, 2, 0) // of policy 1, as the worker ahead has it no more
	r := g.open("a", half.String(), "")
	require.Equal(t, log.idOf(2), r.next().ID, "the answer waits for nobody")
	<-asked
	head <- 5
	require.NoError(t, g.store.Apply(log.msgs[3:4]))
	g.fed = 4
	g.play()
	var ids []policy.EventID
	for _, f := range r.until(log.idOf(3)) {
		ids = append(ids, f.ID)
	}
	require.Equal(t, []policy.EventID{policy.NewEventID(stageBase, 4, 0), policy.NewEventID(stageBase, 4, 1), log.idOf(3)}, ids)
}

// A stream that joined before the hub was fed misses nothing of what was folded
// between the two.
func TestAStreamMayComeBeforeTheHub(t *testing.T) {
	log := newScript(t)
	log.node("a", "role=web")
	g := newStageOn(t, log, Options{}, projector.Options{})
	g.play()
	g.stop()
	h := g.relay.hub
	<-g.ended
	h.over = false
	s := g.meets("a")
	_, err := s.resume(t.Context(), g.relay.Position())
	require.NoError(t, err)
	log.revise(1, "role", 1)
	g.play()
	h.begins, _ = g.store.Feed(h.inbox)
	h.pass()
	require.True(t, s.away, "it is to join anew")
}
