package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// answer is the messages for a node above an id, rising, complete up to another id.
type answer struct {
	items  []item
	upTo   policy.EventID
	log    string // which log it is about; "" if it does not name one
	base   uint64 // that its ids are counted from; 0: it does not say
	resync bool   // the node must pull
}

// maxAnswer bounds an answer, in bytes: 1024 rules of each of a thousand policies. A plane
// that is not well, or what took its place, may answer without end.
const maxAnswer = 256 << 20

// failure is the error for the reason that the plane gives instead of an answer.
func failure(text string) error {
	switch text {
	case wire.ReplayUnknown:
		return &StatusError{Status: http.StatusNotFound, Code: text, Detail: "over NATS: there is no such node"}
	case wire.ReplayBehind:
		return errBehind
	}
	return fmt.Errorf("the plane could not answer: %.200s", text)
}

// question asks the plane for what is above an id.
func (s *session) question(ctx context.Context, after policy.EventID) (answer, error) {
	s.asked++
	subject := s.base + "." + strconv.FormatUint(s.asked, 10)
	lost, _ := s.inbox.Dropped() // fails on a closed subscription; then the next call does too
	err := s.nc.PublishRequest(wire.PrefixReplay+string(s.f.id), subject, fmt.Appendf(nil, `{"after":"%s","tables":%t}`, after, s.f.opt.Tables))
	if err != nil {
		return answer{}, err
	}
	var a answer
	for size := 0; ; {
		m, err := s.part(ctx, subject)
		if err != nil {
			return answer{}, err
		}
		if size += m.Size(); size > s.f.largestAnswer {
			return answer{}, &refusal{m.Header.Get(wire.HeaderEventID), fmt.Errorf("%w: it and what came before it in the answer are larger than %d bytes", artifact.ErrMalformed, s.f.largestAnswer)}
		}
		if text := m.Header.Get(wire.HeaderError); text != "" {
			return answer{}, failure(text)
		}
		if m.Header.Get(wire.HeaderUpTo) != "" {
			a.upTo, err = eventID(m, wire.HeaderUpTo)
			a.log = cmp.Or(m.Header.Get(wire.HeaderLog), a.log)
			a.base = cmp.Or(baseOf(a.upTo, m.Header.Get(wire.HeaderLogSeq)), a.base)
			a.resync = m.Header.Get(wire.HeaderResync) == "true"
			if now, _ := s.inbox.Dropped(); err == nil && now != lost {
				err = errDropped
			}
			slices.SortFunc(a.items, byID)
			return a, err
		}
		if m.Header.Get(wire.HeaderEvent) == artifact.TypeKeyRotated {
			if err := s.rotated(m); err != nil && !s.f.repeats(err, m.Data) {
				return answer{}, s.f.refuse("", err)
			}
			continue
		}
		i, err := s.open(m)
		if err != nil {
			return answer{}, s.f.refuse(m.Header.Get(wire.HeaderEventID), err)
		}
		a.items, a.log, a.base = append(a.items, i), m.Header.Get(wire.HeaderLog), cmp.Or(i.base, a.base)
	}
}

// baseOf is what an id is counted from that stands at a sequence; 0: it is not known.
func baseOf(id policy.EventID, seq string) uint64 {
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return 0 // of a plane that does not say it
	}
	base, _ := id.Seq(n)
	return base
}

// part is the next message of the answer at a subject. It skips those of an earlier
// question that was given up.
func (s *session) part(ctx context.Context, subject string) (*nats.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, min(answerPatience, s.f.opt.Silence))
	defer cancel()
	for {
		m, err := s.inbox.NextMsgWithContext(wait)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("%w at %s%s", errNobody, wire.PrefixReplay, s.f.id)
		case errors.Is(err, nats.ErrSlowConsumer):
			return nil, errDropped
		case err != nil:
			return nil, err
		}
		if m.Subject == subject {
			return m, nil
		}
	}
}

// ask asks, and hands out what was missed. behind means that a live message waits for
// an answer that reaches further.
func (s *session) ask(ctx context.Context) (behind bool, err error) {
	f := s.f
	if !f.begun {
		return true, s.beginRetained(ctx)
	}
	a, err := s.question(ctx, f.splice.confirmed)
	if err != nil {
		return false, err
	}
	f.refused = 0
	another := f.log != "" && a.log != "" && f.log != a.log
	if a.resync || another {
		a.resync = true
		if err := s.resync(ctx, a, another); err != nil {
			return false, err
		}
	}
	s.noteLog(a)
	before := f.splice.mark()
	out, late, behind := f.splice.answer(a.items, a.upTo)
	if !a.resync && slices.ContainsFunc(late, s.matters) {
		f.owed = artifact.ReasonResync
	}
	if err := s.deliver(ctx, out, before); err != nil {
		return false, err
	}
	if f.owed != "" {
		err = s.pull(ctx, f.splice.delivered, f.owed)
	}
	return behind, err
}

// noteLog notes which log the answer is about. Live messages of another log are
// not taken.
func (s *session) noteLog(a answer) {
	s.f.log, s.f.base = cmp.Or(a.log, s.f.log), cmp.Or(a.base, s.f.base)
}

// resync pulls because the answer requires it. After an answer about another log the
// follower begins again.
func (s *session) resync(ctx context.Context, a answer, another bool) error {
	f := s.f
	f.log, f.base = "", 0
	at := f.splice.confirmed
	if another || a.upTo < at {
		at = a.upTo
		if len(a.items) > 0 {
			at = a.items[0].id - 1
		}
		f.splice.restart()
	}
	return s.pull(ctx, at, artifact.ReasonResync)
}
