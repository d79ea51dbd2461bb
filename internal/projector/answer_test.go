package projector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// asks is one producer's question at a time, in the place of a connection.
type asks struct {
	subject, body string
	header        map[string][]string
	answer        Answer
}

func (a *asks) ServeWithin(_ context.Context, _ string, _ streams.Bounds, f func(string, []byte, streams.Reply)) error {
	f(a.subject, []byte(a.body), func(header map[string][]string, body []byte) error {
		a.header = header
		return json.Unmarshal(body, &a.answer)
	})
	return nil
}

// learn asks about an event under a scope.
func learn(t *testing.T, p *Projector, j *journal, scope, seq, body string) Answer {
	q := asks{subject: "edict.verdict." + scope + "." + seq, body: body}
	a := Answerer{Store: p, Log: j, From: &q, Confirmed: func() bool { return true }, Patience: time.Nanosecond}
	require.NoError(t, a.Run(t.Context()))
	if q.answer.Verdict == "" {
		require.Equal(t, []string{q.answer.Code}, q.header["Edict-Error"])
	} else {
		require.Empty(t, q.header)
	}
	return q.answer
}

func TestAnAnswerSaysWhatTheFoldMadeOfAnEvent(t *testing.T) {
	p, j := openFresh(t), &journal{}
	first := revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80)
	for _, e := range []policy.Event{first, first, revise(t, 2, 1, 2, 2, 0, "web", "role=web", 80), policy.PolicyDeleted{ID: evt(3), Project: tenant(2), Policy: pol(9)}} {
		require.NoError(t, p.Apply([]streams.Message{j.add(e)}))
	}
	require.NoError(t, p.Apply([]streams.Message{j.raw("edict.log."+tenant(1).String()+".node.a", []byte("{"))}))
	strange := fmt.Appendf(nil, `{"id":%q,"type":"node_renamed","project_id":%q,"node_id":"a"}`, evt(5), tenant(1))
	const loud = "ABCDEF00-0000-7000-8000-000000000006" // capitals are allowed, and are not in answers
	odd := fmt.Appendf(nil, `{"id":%q,"type":"node_removed","project_id":%q,"node_id":"A"}`, loud, tenant(1))
	for _, body := range [][]byte{strange, odd} {
		require.NoError(t, p.Apply([]streams.Message{j.raw("edict.log."+tenant(1).String()+".node.a", body)}))
	}
	const unfit = `{"id":"Job-7","type":"node_removed","project_id":"%s","node_id":"a"}` // no id of an event, and its producer's all the same
	require.NoError(t, p.Apply([]streams.Message{j.raw("edict.log."+tenant(1).String()+".node.a", fmt.Appendf(nil, unfit, tenant(1)))}))
	j.add(revise(t, 4, 1, 3, 3, 0, "db", "role=db", 80)) // not folded yet
	sum := sha256.Sum256(j.msgs[0].Body)
	mine, foreign := tenant(1).String(), tenant(2).String()
	const kind = "policy_revision_created"
	for name, c := range map[string]struct {
		scope, seq, body string
		want             Answer
	}{
		"an event that was applied":       {mine, "1", "", Answer{Seq: 1, EventID: evt(1).String(), Type: kind, Verdict: "applied"}},
		"an event that was seen before":   {mine, "2", "", Answer{Seq: 2, EventID: evt(1).String(), Type: kind, Verdict: "duplicate"}},
		"an event that was rejected":      {mine, "3", "", Answer{Seq: 3, EventID: evt(2).String(), Type: kind, Verdict: "rejected", Code: "policy_slug_taken"}},
		"an event that cannot be read":    {mine, "5", "", Answer{Seq: 5, Verdict: "rejected", Code: "undecodable"}},
		"an event of a type that is none": {mine, "6", fmt.Sprintf(`{"event_id":%q}`, evt(5)), Answer{Seq: 6, EventID: evt(5).String(), Type: "node_renamed", Verdict: "rejected", Code: "unknown_type"}},
		"an event about a bad id":         {mine, "7", fmt.Sprintf(`{"event_id":%q}`, loud), Answer{Seq: 7, EventID: strings.ToLower(loud), Type: "node_removed", Verdict: "rejected", Code: "invalid"}},
		"an unreadable event, its digest": {mine, "5", fmt.Sprintf(`{"event_id":%q,"sha256":"%x"}`, evt(9), sha256.Sum256([]byte("{"))), Answer{Seq: 5, Verdict: "rejected", Code: "undecodable"}},
		"an id that is none, and its own": {mine, "8", `{"event_id":"job-7"}`, Answer{Seq: 8, Type: "node_removed", Verdict: "rejected", Code: "invalid"}},
		"a part of an id that is none":    {mine, "8", `{"event_id":"job"}`, Answer{Seq: 8, Type: "node_removed", Verdict: "rejected", Code: "duplicate_id"}},
		"an unreadable event, another id": {mine, "5", fmt.Sprintf(`{"event_id":%q}`, evt(9)), Answer{Seq: 5, Verdict: "rejected", Code: "duplicate_id"}},
		"the very event that is meant":    {mine, "1", fmt.Sprintf(`{"event_id":%q,"sha256":"%X"}`, evt(1), sum), Answer{Seq: 1, EventID: evt(1).String(), Type: kind, Verdict: "applied"}},
		"an event with another body":      {mine, "3", `{"sha256":"` + hex.EncodeToString(sum[:]) + `"}`, Answer{Seq: 3, EventID: evt(2).String(), Type: kind, Verdict: "rejected", Code: "duplicate_id"}},
		"an event with another id":        {mine, "1", fmt.Sprintf(`{"event_id":%q}`, evt(2)), Answer{Seq: 1, EventID: evt(1).String(), Type: kind, Verdict: "rejected", Code: "duplicate_id"}},
		"an event not folded yet":         {mine, "9", "", Answer{Seq: 9, EventID: evt(4).String(), Type: kind, Code: "behind"}},
		"an event of another project":     {foreign, "1", "", Answer{Seq: 1, Code: "event_not_found"}},
		"another project's, and its body": {foreign, "1", `{"sha256":"` + hex.EncodeToString(sum[:]) + `"}`, Answer{Seq: 1, Verdict: "rejected", Code: "duplicate_id"}},
		"a part of a project":             {mine[:8], "1", "", Answer{Seq: 1, Code: "event_not_found"}},
		"an event that is not there":      {mine, "10", `{"sha256":"` + hex.EncodeToString(sum[:]) + `"}`, Answer{Seq: 10, Code: "event_not_found"}},
		"no sequence":                     {mine, "x", "", Answer{Code: "bad_request"}},
		"the sequence zero":               {mine, "0", "", Answer{Code: "bad_request"}},
		"a misspelt member":               {mine, "1", `{"sha":"1"}`, Answer{Seq: 1, Code: "bad_request"}},
		"a digest that is none":           {mine, "1", `{"sha256":"1"}`, Answer{Seq: 1, Code: "bad_request"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := learn(t, p, j, c.scope, c.seq, c.body)
			require.Equal(t, got.Code != "", got.Detail != "", "whatever has a code says what to do")
			got.Detail, got.Violations = "", nil
			require.Equal(t, c.want, got)
		})
	}
}

func TestAnAnswerOfAnotherProcessKnowsRejectionsAndWhatIsNone(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	for n := 1; n <= 2; n++ {
		require.NoError(t, p.Apply([]streams.Message{j.add(revise(t, n, 1, n, n, 0, "web", "role=web", 80))}))
	}
	require.NoError(t, p.Close())
	p = d.open(t)
	defer func() { require.NoError(t, p.Close()) }()
	require.Equal(t, "accepted", learn(t, p, j, tenant(1).String(), "1", "").Verdict)
	require.Equal(t, "policy_slug_taken", learn(t, p, j, tenant(1).String(), "2", "").Code)
}

func TestALogThatIsNotConfirmedAnswersNothing(t *testing.T) {
	p, j := openFresh(t), &journal{}
	require.NoError(t, p.Apply([]streams.Message{j.add(revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80))}))
	q := asks{subject: "edict.verdict." + tenant(1).String() + ".1"}
	require.NoError(t, Answerer{Store: p, Log: j, From: &q, Confirmed: func() bool { return false }}.Run(t.Context()))
	require.Equal(t, "behind", q.answer.Code)
}
