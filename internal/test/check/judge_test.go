package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

const (
	project = "00000000-0000-4000-8000-000000000000"
	pol     = "01900000-0000-7000-8000-000000000001"
	second  = "01900000-0000-7000-8000-000000000002"
	base    = 5000
)

func at(seq uint64, number uint32) policy.EventID { return policy.NewEventID(base, seq, number) }

func rules(port int) string {
	if port == 0 {
		return "[]"
	}
	return fmt.Sprintf(`[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":%d,"to":%d},"action":"allow"}]`, port, port)
}

// told is a frame for node a about a policy; port 0: it is gone.
func told(seq uint64, number uint32, port int, revision string) watch.Frame {
	return watch.Frame{
		ID: at(seq, number), Type: "policy_updated", Node: "a", Policy: []string{pol, second}[number],
		Revision: revision, Fingerprint: oracle.Fingerprint(rules(port)), Rules: rules(port),
	}
}

func pull(id policy.EventID) watch.Frame {
	return watch.Frame{ID: id, Type: "node_state_updated", Node: "a", Pull: true, Reason: "resync"}
}

func updated(seq uint64, node, role string) Event {
	return Event{Seq: seq, Body: fmt.Appendf(nil, `{"id":"e%d","type":"node_updated","project_id":%q,"node_id":%q,"labels":{"role":%q}}`, seq, project, node, role)}
}

func revised(seq uint64, id string, role string, port int) Event {
	return Event{Seq: seq, Body: fmt.Appendf(nil, `{"id":"e%d","type":"policy_revision_created","project_id":%q,"policy_id":%q,"revision":{"id":"r%d",`+
		`"selector":{"source":"role=%s","destination":"role=nobody"},"rules":%s}}`, seq, project, id, seq, role, rules(port))}
}

// small is a run in which everything is as it should be: two nodes, two policies,
// other rules for one, its end; a client over SSE that was cut once, and one that
// asks over NATS.
func small() *Run {
	frames := []watch.Frame{told(3, 0, 80, "r3"), told(4, 1, 1, "r4"), told(5, 0, 443, "r5"), told(7, 0, 0, "r6")}
	return &Run{
		Base: base,
		Log: []Event{
			updated(1, "a", "web"), updated(2, "b", "web"),
			revised(3, pol, "web", 80), revised(4, second, "web", 1), revised(5, pol, "web", 443),
			revised(6, pol, "web", 443), // nobody is told
			{Seq: 7, Body: fmt.Appendf(nil, `{"id":"e7","type":"policy_deleted","project_id":%q,"policy_id":%q}`, project, pol)},
		},
		Heard: slices.Clone(frames),
		Records: []watch.Record{
			{Node: "a", Settled: true, Sessions: []watch.Session{
				{Over: "SSE", After: at(1, 0), Frames: slices.Clone(frames[:2])},
				{Over: "SSE", After: at(4, 1), Frames: slices.Clone(frames[2:])},
			}},
			{Node: "a", Settled: true, Tables: true, Sessions: []watch.Session{
				{Over: "answer", After: at(2, policy.NumberTable), UpTo: policy.EndOf(base, 4), Frames: append(slices.Clone(frames[:2]), datapath(4))},
				{Over: "live", After: policy.EndOf(base, 4), Frames: []watch.Frame{frames[2], frames[2]}},
				{Over: "answer", After: policy.EndOf(base, 4), UpTo: policy.EndOf(base, 7), Frames: []watch.Frame{frames[3], datapath(7)}},
			}},
		},
		States:  map[string]string{"a": state(second, "r4", 1)},
		Digests: map[string]string{"one": "d", "two": "d"},
	}
}

func datapath(seq uint64) watch.Frame {
	return watch.Frame{ID: policy.EndOf(base, seq), Type: "node_state_updated", Node: "a", Pull: true, Reason: "datapath"}
}

func state(id, revision string, port int) string {
	return fmt.Sprintf(`{"peers":[],"reachability":null,"policy":{"revision_id":%q,"fingerprint":%q,"rules":%s},"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`,
		revision, oracle.Fingerprint(rules(port)), rules(port))
}

func judge(t *testing.T, r *Run) []Violation {
	t.Helper()
	broken, err := Judge(r)
	require.NoError(t, err)
	return broken
}

func TestARunThatKeepsEveryPromiseIsNotBlamed(t *testing.T) {
	require.Empty(t, judge(t, small()))
}

func TestEachRuleNamesWhatBreaksIt(t *testing.T) {
	session := func(r *Run, i int) *watch.Session { return &r.Records[0].Sessions[i] }
	answer := func(r *Run, i int) *watch.Session { return &r.Records[1].Sessions[i] }
	for _, c := range []struct {
		fault string
		rule  Rule
		spoil func(r *Run)
	}{
		{"an event that was acknowledged, and is not there", Durable, func(r *Run) { r.Acks = []Ack{{8, "s", "e8"}} }},
		{"another event where one was acknowledged", Durable, func(r *Run) { r.Acks = []Ack{{2, "s", "e1"}} }},
		{"an event of another subject", Durable, func(r *Run) { r.Log[0].Subject, r.Acks = "t", []Ack{{1, "s", "e1"}} }},
		{"an event that was accepted and says otherwise than its subject", Judged, func(r *Run) { r.Log[0].Subject = "edict.log." + project + ".node.b" }},
		{"an event that was rejected for nothing", Judged, func(r *Run) {
			r.Log[6].Subject, r.Log[6].Rejected = "edict.log."+project+".policy."+pol, "revision_conflict"
		}},
		{"a pull that is older than what was heard", Ordered, func(r *Run) {
			old := watch.Session{Over: "pull", After: policy.EndOf(base, 4), Rows: map[string]watch.Frame{pol: told(3, 0, 80, "r3"), second: told(4, 1, 1, "r4")}}
			again := watch.Session{Over: "SSE", After: old.After, Frames: r.Records[0].Sessions[1].Frames}
			r.Records[0].Sessions = append(r.Records[0].Sessions, old, again)
		}},
		{"a frame that does not verify", Readable, func(r *Run) { session(r, 1).Broken = "frame x: it does not verify" }},
		{"falling ids", Ordered, func(r *Run) { f := session(r, 1).Frames; f[0], f[1] = f[1], f[0] }},
		{"a frame from before what was resumed from", Ordered, func(r *Run) {
			s := session(r, 1)
			s.Frames = append([]watch.Frame{session(r, 0).Frames[0]}, s.Frames...)
		}},
		{"a message to pull that sets back", Ordered, func(r *Run) {
			s := session(r, 1)
			s.Frames = append([]watch.Frame{pull(policy.NewEventID(base, 0, 0))}, s.Frames...)
		}},
		{"a frame twice", Unique, func(r *Run) { s := session(r, 1); s.Frames = append(s.Frames, s.Frames[1]) }},
		{"another node's row", Own, func(r *Run) { session(r, 0).Frames[0].Node = "b" }},
		{"a missed row", Complete, func(r *Run) {
			session(r, 0).Frames = session(r, 0).Frames[:1]
			session(r, 1).After = at(3, 0)
		}},
		{"a missed tombstone in an answer", Complete, func(r *Run) { s := answer(r, 2); s.Frames = s.Frames[1:] }},
		{"a missed tombstone at the end", Held, func(r *Run) { s := session(r, 1); s.Frames = s.Frames[:1] }},
		{"silence before the window", Notified, func(r *Run) { session(r, 1).From = 4 }},
		{"silence for another log's id", Notified, func(r *Run) { session(r, 0).After = policy.NewEventID(base-1, 0, 7) }},
		{"silence beyond the end", Notified, func(r *Run) { answer(r, 0).After = policy.NewEventID(base, 8, 0) }},
		{"silence below a loss", Notified, func(r *Run) { r.Breaks = []uint64{4} }},
		{"silence about a table", Notified, func(r *Run) { s := answer(r, 2); s.Frames = s.Frames[:1] }},
		{"a fingerprint of other rules", Hashed, func(r *Run) { session(r, 0).Frames[0].Rules = rules(81) }},
		{"rules that were not", True, func(r *Run) {
			f := &session(r, 0).Frames[0]
			f.Rules, f.Fingerprint = rules(81), oracle.Fingerprint(rules(81))
		}},
		{"a row that was gone", True, func(r *Run) { session(r, 1).Frames[1] = told(7, 0, 443, "r6") }},
		{"a wrong id: an event that changed nothing", Named, func(r *Run) { session(r, 1).Frames[0] = told(6, 0, 443, "r6") }},
		{"a wrong id: another policy's", Named, func(r *Run) { session(r, 0).Frames[1].Policy = pol }},
		{"a wrong id: beyond the end", Named, func(r *Run) { session(r, 1).Frames[1].ID = at(9, 0) }},
		{"a message about a table in the midst of an event", Named, func(r *Run) { answer(r, 0).Frames[2].ID = at(4, 2) }},
		{"a wrong revision", Headed, func(r *Run) { session(r, 1).Frames[0].Revision = "r6" }},
		{"two contents of one id", Deterministic, func(r *Run) {
			f := &r.Heard[0]
			f.Rules, f.Fingerprint = rules(81), oracle.Fingerprint(rules(81))
		}},
		{"two revisions under one id", Deterministic, func(r *Run) { r.Heard[0].Revision = "r4" }},
		{"a state that is not the facts'", Stated, func(r *Run) { r.States["a"] = "{}" }},
		{"two digests", Deterministic, func(r *Run) { r.Digests["two"] = "e" }},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r := small()
			c.spoil(r)
			require.Contains(t, Rules(judge(t, r)), c.rule)
			require.NotZero(t, c.rule.Promise())
		})
	}
}

// A row may be told again that the client has, under the later event that could
// have changed it.
func TestAWordTooManyIsAllowed(t *testing.T) {
	r := small()
	r.Log = append(r.Log, updated(8, "a", "web"), revised(9, second, "web,a!=b", 1))
	again := told(9, 1, 1, "r9")
	s := &r.Records[0].Sessions[1]
	s.Frames = append(s.Frames, again)
	r.States["a"] = state(second, "r9", 1)
	require.Empty(t, judge(t, r))
	again.ID = at(8, 1) // labels that are the same gave it to nobody
	s.Frames[2] = again
	require.Contains(t, Rules(judge(t, r)), Named)
}

func TestSomethingMayBeMissingOnlyWhereSomethingNewerWasTold(t *testing.T) {
	r := small()
	s := &r.Records[0].Sessions[1]
	s.Frames = s.Frames[1:] // conflated
	require.Empty(t, judge(t, r))

	r = small() // the row of 3 waits behind that of 5 when the stream ends
	r.Records[0].Sessions[0].Frames = r.Records[0].Sessions[0].Frames[1:]
	require.Empty(t, rulesBut(judge(t, r), Complete), "5 and 7 come later, in the next session")
	r.Records[0].Sessions = r.Records[0].Sessions[:1]
	r.Records[0].Settled = false
	require.Contains(t, Rules(judge(t, r)), Complete)
}

func rulesBut(vs []Violation, but Rule) []Rule {
	return slices.DeleteFunc(Rules(vs), func(r Rule) bool { return r == but })
}

// Who is told to pull need not hear what it missed, and goes on after the pull.
func TestAPullSettlesWhatCannotBeKnown(t *testing.T) {
	r := small()
	s := &r.Records[0].Sessions[1]
	s.From = 4
	s.Frames = []watch.Frame{pull(s.After)}
	pulled := watch.Session{Over: "pull", After: policy.EndOf(base, 7), Rows: map[string]watch.Frame{
		second: {Policy: second, Fingerprint: oracle.Fingerprint(rules(1)), Rules: rules(1)},
	}}
	r.Records[0].Sessions = append(r.Records[0].Sessions, pulled)
	require.Empty(t, judge(t, r))
}

// Over NATS an answer says at its end that the node must pull: what stands before
// that need not be whole, nor need what came of an answer without its end.
func TestAnAnswerThatEndsInAPullNeedNotBeWhole(t *testing.T) {
	r := small()
	r.Log = append(r.Log, revised(8, second, "web", 2))
	r.Records[1].Sessions[1].Frames = nil
	s := &r.Records[1].Sessions[2]
	s.Frames, s.UpTo = []watch.Frame{told(8, 1, 2, "r8")}, policy.EndOf(base, 8)
	require.Contains(t, Rules(judge(t, r)), Complete, "the deletion of event 7 is not there")
	s.Pull = true
	require.NotContains(t, Rules(judge(t, r)), Complete)
	s.Pull, s.UpTo = false, 0
	require.NotContains(t, Rules(judge(t, r)), Complete)
}

// Ids of the log that was there before cannot be judged; who comes with one is
// told to pull.
func TestAnIDOfAnEarlierLogPulls(t *testing.T) {
	r := small()
	old := told(3, 0, 80, "r3")
	old.ID = policy.NewEventID(base-100, 3, 0)
	s := &r.Records[0].Sessions[0]
	s.After = old.ID
	s.Frames = append([]watch.Frame{pull(policy.NewEventID(base, 0, 0))}, s.Frames...)
	r.Records[0].Sessions = append([]watch.Session{{Over: "SSE", Frames: []watch.Frame{pull(1), old}}}, r.Records[0].Sessions...)
	require.Empty(t, judge(t, r))
}

// TestAnAnswerThatWasCutOffSaysNothingOfAPull: it does at its end.
func TestAnAnswerThatWasCutOffSaysNothingOfAPull(t *testing.T) {
	r := small()
	first := r.Records[1].Sessions[0]
	cut := watch.Session{Over: "answer", After: 0, Frames: slices.Clone(first.Frames[:1])}
	r.Records[1].Sessions = append([]watch.Session{cut}, r.Records[1].Sessions...)
	require.Empty(t, judge(t, r))
	r.Records[1].Sessions[0].UpTo = policy.EndOf(base, 4)
	require.Contains(t, fmt.Sprint(judge(t, r)), "the message to pull did not come first")
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
	r.Log = r.Log[:3]
	r.Log[2].Body = fmt.Appendf(nil, `{"id":"e3","type":"policy_revision_created","project_id":%q,"policy_id":%q,"revision":{"id":"r3",`+
		`"selector":{"source":"role=web","destination":"role=db"},"tier":"admin","rules":[{"action":"pass","protocol":"any",`+
		`"source_selector":"role=web","destination_cidr":"10.1.0.0/16"}]}}`, project, pol)
	f := told(3, 0, 0, "r3")
	f.Omitted = 1
	r.Heard, r.States = nil, nil
	r.Records = []watch.Record{{Node: "a", Settled: true, Sessions: []watch.Session{{Over: "SSE", After: at(1, 0), Frames: []watch.Frame{f}}}}}
	require.Empty(t, judge(t, r))
	r.Records[0].Sessions[0].Frames[0].Omitted = 0
	require.Contains(t, Rules(judge(t, r)), True)
}

func TestArtifactsAreJudged(t *testing.T) {
	document := `{"kind":"vertex","name":"v","payload":"1"}`
	r := &Run{Base: base, Log: []Event{
		updated(1, "a", "web"),
		{Seq: 2, Body: fmt.Appendf(nil, `{"id":"e2","type":"artifact_released","project_id":%q,"node_id":"a","artifacts":[%s]}`, project, document)},
		{Seq: 3, Body: fmt.Appendf(nil, `{"id":"e3","type":"artifact_withdrawn","project_id":%q,"node_id":"a","kind":"vertex","name":"v"}`, project)},
	}}
	has := watch.Frame{
		ID: at(2, policy.NumberArtifact), Type: "artifact_updated", Node: "a", Kind: "vertex", Name: "v",
		Document: document + "\n", Fingerprint: oracle.Fingerprint(document + "\n"),
	}
	gone := watch.Frame{ID: at(3, policy.NumberWithdrawn), Type: "artifact_updated", Node: "a", Kind: "vertex", Name: "v"}
	r.Records = []watch.Record{{Node: "a", Settled: true, Sessions: []watch.Session{{Over: "SSE", After: at(1, 0), Frames: []watch.Frame{has, gone}}}}}
	require.Empty(t, judge(t, r))
	for rule, spoil := range map[Rule]func(f []watch.Frame) []watch.Frame{
		Named:  func(f []watch.Frame) []watch.Frame { f[0].ID = at(2, policy.NumberArtifact+1); return f },
		Hashed: func(f []watch.Frame) []watch.Frame { f[0].Document += " "; return f },
		Held:   func(f []watch.Frame) []watch.Frame { return f[:1] },
		True: func(f []watch.Frame) []watch.Frame {
			f[1].Document, f[1].Fingerprint = has.Document, has.Fingerprint
			return f
		},
	} {
		r.Records[0].Sessions[0].Frames = spoil([]watch.Frame{has, gone})
		require.Contains(t, Rules(judge(t, r)), rule)
	}
}
