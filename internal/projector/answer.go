package projector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// What Answer.Verdict says of an event.
const (
	VerdictApplied   = "applied"
	VerdictDuplicate = "duplicate"
	VerdictRejected  = "rejected"
	VerdictAccepted  = "accepted" // applied or duplicate: it was folded too long ago to say which
)

// AnswerDuplicateID is that of an answer about an event which is not the one that
// the producer published under this message id.
const AnswerDuplicateID = "duplicate_id"

// Why there is no verdict: codes of an answer, also in wire.HeaderError.
const (
	AnswerEventNotFound = "event_not_found" // the project has no event at the sequence
	AnswerBadQuestion   = "bad_request"     // the subject or the body cannot be read
	AnswerBusy          = "busy"            // the project asks too much at once
)

// Question is what a producer may say about its event, so that another one is not
// taken for it. Both members are optional, and so is the question.
type Question struct {
	EventID string `json:"event_id"` // the id in its body
	SHA256  string `json:"sha256"`   // of its body as it was published, in hex
}

// Answer says what became of one event. Without a verdict Code and Detail say why.
type Answer struct {
	Seq        uint64             `json:"seq,omitempty"`      // of the event, in the log
	EventID    string             `json:"event_id,omitempty"` // of the event that stands there; "" when it has none that can be read
	Type       string             `json:"type,omitempty"`     // likewise
	Verdict    string             `json:"verdict,omitempty"`
	Code       string             `json:"code,omitempty"` // of a rejection
	Detail     string             `json:"detail,omitempty"`
	Violations []policy.Violation `json:"violations,omitempty"`
}

// Requests hands over what producers ask; *streams.Conn is one.
type Requests interface {
	ServeWithin(ctx context.Context, subject string, b streams.Bounds, f func(subject string, body []byte, reply streams.Reply)) error
}

// Answerer tells producers what the fold made of their events, on
// edict.verdict.<project>.<sequence>. Any worker may answer, because all fold
// alike. Who may ask about a project follows from the subject, and an event of
// another project is answered for as if there were none. It writes nothing.
type Answerer struct {
	Store *Projector
	Log   interface {
		Get(ctx context.Context, seq uint64) (streams.Message, error)
	}
	From Requests
	// Confirmed reports whether the log is known to be the one that was folded.
	Confirmed func() bool
	// Patience bounds the wait for the fold; 0: 4 s, which is less than the 5 s
	// that a client of NATS waits by default.
	Patience time.Duration
}

// Bounds of the questions that one worker answers at the same time.
const (
	answersAtOnce  = 256
	answersProject = 64
	answerPatience = 4 * time.Second
)

// Run answers until ctx ends.
func (a Answerer) Run(ctx context.Context) error {
	if a.Patience == 0 {
		a.Patience = answerPatience
	}
	bounds := streams.Bounds{
		AtOnce: answersAtOnce, Each: answersProject,
		Source: func(subject string) string {
			scope, _, _ := strings.Cut(subject[len(wire.PrefixVerdict):], ".")
			return scope
		},
		Refuse: func(_ string, reply streams.Reply) {
			send(reply, Answer{Code: AnswerBusy, Detail: fmt.Sprintf("the project asks about more than %d events at once: ask again", answersProject)})
		},
	}
	return a.From.ServeWithin(ctx, wire.PrefixVerdict+"*.*", bounds, func(subject string, body []byte, reply streams.Reply) {
		send(reply, a.answer(ctx, subject, body))
	})
}

// send replies; who asked may be gone, or asks again.
func send(reply streams.Reply, x Answer) {
	body, err := json.Marshal(x)
	if err != nil { // plain strings and numbers: cannot fail
		panic(err)
	}
	var header map[string][]string
	if x.Verdict == "" {
		header = map[string][]string{wire.HeaderError: {x.Code}}
	}
	_ = reply(header, body)
}

func (a Answerer) answer(ctx context.Context, subject string, body []byte) Answer {
	scope, number, _ := strings.Cut(subject[len(wire.PrefixVerdict):], ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return Answer{Code: AnswerBadQuestion, Detail: fmt.Sprintf("%.40q is no sequence: ask on %s<project>.<sequence>, with that of the acknowledgement", number, wire.PrefixVerdict)}
	}
	q, err := readQuestion(body)
	if err != nil {
		return Answer{Seq: seq, Code: AnswerBadQuestion, Detail: fmt.Sprintf(`a question is empty or {"event_id":"…","sha256":"…"}: %v`, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, a.Patience)
	defer cancel()
	m, err := a.Log.Get(ctx, seq)
	if errors.Is(err, streams.ErrNotFound) {
		return notFound(seq)
	}
	if err != nil || !a.Confirmed() {
		return Answer{Seq: seq, Code: wire.ReplayBehind, Detail: "the log does not answer now: ask again"}
	}
	if !strings.HasPrefix(m.Subject, wire.PrefixLog+scope+".") {
		return q.foreign(seq)
	}
	return a.judged(ctx, m, q)
}

func readQuestion(body []byte) (q Question, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return q, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, err
	}
	if q.SHA256 != "" {
		if sum, err := hex.DecodeString(q.SHA256); err != nil || len(sum) != sha256.Size {
			return q, errors.New("sha256 is not 64 hex digits")
		}
	}
	return q, nil
}

func notFound(seq uint64) Answer {
	return Answer{Seq: seq, Code: AnswerEventNotFound, Detail: fmt.Sprintf("the project has no event %d: ask under the project of the event's subject", seq)}
}

// foreign answers for an event of another project: of that nothing is said, but
// who says which event it means learns that it is not this one.
func (q Question) foreign(seq uint64) Answer {
	if q == (Question{}) {
		return notFound(seq)
	}
	return Answer{
		Seq: seq, Verdict: VerdictRejected, Code: AnswerDuplicateID,
		Detail: fmt.Sprintf("what stands at %d under this Nats-Msg-Id is no event of the project: yours is not in the log; publish it again without Nats-Msg-Id", seq),
	}
}

// means reports whether a question is about the event with this body. The digest
// says so alone, if it is given. Of a body that cannot be read no id is known: one that has
// the id somewhere is its producer's, who learns what is wrong with it.
func (q Question) means(body []byte, id string) bool {
	if q.SHA256 != "" {
		sum := sha256.Sum256(body)
		return strings.EqualFold(q.SHA256, hex.EncodeToString(sum[:]))
	}
	if q.EventID == "" || strings.EqualFold(q.EventID, id) {
		return true
	}
	quoted, err := json.Marshal(q.EventID)
	return id == "" && err == nil && bytes.Contains(bytes.ToLower(body), bytes.ToLower(quoted))
}

// judged waits for the verdict on an event of the project.
func (a Answerer) judged(ctx context.Context, m streams.Message, q Question) Answer {
	x := Answer{Seq: m.Seq}
	e, err := policy.Decode(m.Body)
	var fault *policy.DecodeError // what is wrong with it is the fold's to say
	_ = errors.As(err, &fault)
	x.EventID, x.Type = eventNames(e, fault)
	if !q.means(m.Body, x.EventID) {
		x.Verdict, x.Code = VerdictRejected, AnswerDuplicateID
		x.Detail = fmt.Sprintf("the event at %d has another body: yours is not in the log; publish it with an id of its own, in id and Nats-Msg-Id", m.Seq)
		return x
	}
	v, err := a.Store.Verdict(ctx, m.Seq)
	switch {
	case errors.Is(err, ErrForgotten):
		x.Verdict = VerdictAccepted
	case err != nil:
		x.Code, x.Detail = wire.ReplayBehind, fmt.Sprintf("the fold stands at %d: ask again", a.Store.Applied())
	case v.Rejection != nil:
		x.Verdict, x.Code, x.Detail, x.Violations = VerdictRejected, v.Rejection.Code, v.Rejection.Detail, v.Rejection.Violations
	case v.Duplicate:
		x.Verdict = VerdictDuplicate
	default:
		x.Verdict = VerdictApplied
	}
	return x
}
