package check

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/test/oracle"
)

const (
	project = "00000000-0000-4000-8000-000000000000"
	pol     = "01900000-0000-7000-8000-000000000001"
)

// small is a run in which everything is as it should be: a node, a policy that
// it matches, other rules for it, and its end.
func small() *Run {
	revise := func(seq uint64, port int) Event {
		return Event{Seq: seq, Body: fmt.Appendf(nil, `{"id":"e%d","type":"policy_revision_created","project_id":%q,"policy_id":%q,"revision":{"id":"r%d",`+
			`"selector":{"source":"role=web","destination":"role=db"},"rules":[{"action":"allow","protocol":"tcp",`+
			`"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":%d,"to":%d}}]}}`, seq, project, pol, seq, port, port)}
	}
	told := func(at, version uint64, port int) Frame {
		rules := "[]"
		if port > 0 {
			rules = fmt.Sprintf(`[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":%d,"to":%d},"action":"allow"}]`, port, port)
		}
		return Frame{Seq: at, Version: version, Node: "a", Policy: pol, Fingerprint: oracle.Fingerprint(rules), Rules: rules, Applied: version}
	}
	frames := []Frame{told(102, 2, 80), told(104, 3, 443), told(106, 4, 0)}
	fence := func(at uint64, epoch uint64, after Position) Fence {
		return Fence{Seq: at, Owner: "x", Epoch: epoch, Mode: "follow", After: after}
	}
	return &Run{
		Log: []Event{
			{Seq: 1, Body: fmt.Appendf(nil, `{"id":"e1","type":"node_updated","project_id":%q,"node_id":"a","labels":{"role":"web"}}`, project)},
			revise(2, 80), revise(3, 443),
			{Seq: 4, Body: fmt.Appendf(nil, `{"id":"e4","type":"policy_deleted","project_id":%q,"policy_id":%q}`, project, pol)},
		},
		Announced: frames, Whole: true, First: 100,
		Fences:    []Fence{fence(101, 1, Position{Seq: 2, Policy: pol, Node: "a"}), fence(103, 1, Position{Seq: 3, Policy: pol, Node: "a"}), fence(105, 2, Position{Seq: 4, Policy: pol, Node: "a"})},
		Partition: func(string) int { return 0 },
		Quiet:     []Quiet{{Log: 3, Stream: 104}, {Log: 4, Stream: 106}},
		Watchers: []*Watcher{{Node: "a", Settled: true, Sessions: []Session{
			{Over: "SSE", After: 101, Frames: []Frame{frames[0]}},
			{Over: "SSE", After: 102, Frames: []Frame{frames[1], frames[2]}},
		}}},
		States:  map[string]string{"a": `{"peers":[],"reachability":null,"policy":null,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`},
		Digests: map[string]string{"one": "d", "two": "d"},
	}
}

// What was met last may come as the id of the word to pull that a resume begins
// with; later it may not.
func TestAWordToPullMayCarryWhereTheClientWas(t *testing.T) {
	run := small()
	s := &run.Watchers[0].Sessions[1]
	s.Frames = append([]Frame{{Seq: s.After, Node: "a", Pull: true}}, s.Frames...)
	broken, err := Judge(run)
	require.NoError(t, err)
	require.Empty(t, broken)
	s.Frames = append(s.Frames, Frame{Seq: s.After, Node: "a", Pull: true})
	broken, err = Judge(run)
	require.NoError(t, err)
	require.NotEmpty(t, broken)
}

func TestARunThatKeepsEveryPromiseIsNotBlamed(t *testing.T) {
	broken, err := Judge(small())
	require.NoError(t, err)
	require.Empty(t, broken)
}

func TestEachRuleNamesWhatBreaksIt(t *testing.T) {
	session := func(r *Run, i int) *Session { return &r.Watchers[0].Sessions[i] }
	for rule, spoil := range map[Rule]func(r *Run){
		Readable: func(r *Run) { session(r, 1).Broken = "frame x: it does not verify" },
		Ordered:  func(r *Run) { f := session(r, 1).Frames; f[0], f[1] = f[1], f[0] },
		Unique:   func(r *Run) { s := session(r, 1); s.Frames = append(s.Frames, s.Frames[1]) },
		Rising:   func(r *Run) { r.Announced[1].Seq, r.Announced[0].Seq = 102, 104 },
		Fenced:   func(r *Run) { r.Fences[1].Owner = "y" },
		Own:      func(r *Run) { session(r, 0).Frames = []Frame{{Seq: 102, Node: "b", Pull: true}} },
		Complete: func(r *Run) { s := session(r, 1); s.UpTo, s.Frames = 106, s.Frames[:1] },
		Word:     func(r *Run) { session(r, 0).After = 0 },
		Held:     func(r *Run) { s := session(r, 1); s.Frames = s.Frames[:1] },
		Gated:    func(r *Run) { session(r, 0).Frames[0].Applied = 1 },
		Hashed:   func(r *Run) { session(r, 0).Frames = []Frame{r.Announced[0]}; session(r, 0).Frames[0].Rules = "[]" },
		True: func(r *Run) {
			r.Announced = append(r.Announced, r.Announced[0])
			r.Announced[3].Seq, r.Announced[3].Version = 107, 5
		},
		Whole:         func(r *Run) { r.Fences[2].After.Node = "b" },
		Converged:     func(r *Run) { r.Announced = r.Announced[:2] },
		Stated:        func(r *Run) { r.States["a"] = "{}" },
		Deterministic: func(r *Run) { r.Digests["two"] = "e" },
	} {
		t.Run(string(rule), func(t *testing.T) {
			r := small()
			spoil(r)
			broken, err := Judge(r)
			require.NoError(t, err)
			require.Contains(t, Rules(broken), rule)
			require.NotZero(t, rule.Promise())
		})
	}
	require.Len(t, promises, 16)
}

func TestAMessageMayBeMissingOnlyWhenANewerOneReplacedIt(t *testing.T) {
	r := small()
	s := &r.Watchers[0].Sessions[1]
	s.Frames = s.Frames[1:] // conflated
	broken, err := Judge(r)
	require.NoError(t, err)
	require.Empty(t, broken)
}

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	r := small()
	r.Log[0].Body = []byte("{")
	_, err := Judge(r)
	require.ErrorContains(t, err, "event 1")
}

// A row of which a node hears a part is told with the count of the rest, even
// where the rest is all of it.
func TestWhatIsLeftOutIsJudged(t *testing.T) {
	r := small()
	r.Log[1].Body = fmt.Appendf(nil, `{"id":"e2","type":"policy_revision_created","project_id":%q,"policy_id":%q,"revision":{"id":"r2",`+
		`"selector":{"source":"role=web","destination":"role=db"},"tier":"admin","rules":[{"action":"pass","protocol":"any",`+
		`"source_selector":"role=web","destination_cidr":"10.1.0.0/16"}]}}`, project, pol)
	told := Frame{Seq: 102, Version: 2, Node: "a", Policy: pol, Fingerprint: oracle.EmptyFingerprint, Rules: "[]", Omitted: 1, Applied: 2}
	r.Announced[0], r.Watchers[0].Sessions[0].Frames[0] = told, told
	broken, err := Judge(r)
	require.NoError(t, err)
	require.Empty(t, broken)
	r.Announced[0].Omitted = 0
	broken, err = Judge(r)
	require.NoError(t, err)
	require.Contains(t, Rules(broken), True)
}
