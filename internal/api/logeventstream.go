package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// logEventStream is one client's way along the log.
type logEventStream struct {
	sse
	h      *logEventHandlers
	w      wantedEvents
	who    *access.Principal // nil: access is not configured
	after  uint64            // sent, or not asked for
	caught bool
}

func (s *logEventStream) run(ctx context.Context) error {
	if err := s.send(":hello\n\n"); err != nil {
		return err
	}
	for {
		folded := s.h.model.Applied()
		for s.after < folded {
			if err := s.sendNext(ctx, folded); err != nil {
				return err
			}
		}
		if !s.caught {
			s.caught = true
			if err := s.send(fmt.Sprintf("id: %d\nevent: caught_up\ndata: {\"seq\":%d}\n\n", s.after, s.after)); err != nil {
				return err
			}
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// wait returns once more is folded, or it is time to say that the stream is there.
func (s *logEventStream) wait(ctx context.Context) error {
	patient, cancel := s.patience(ctx)
	defer cancel()
	err := s.h.model.Wait(patient, s.after+1)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return s.alive()
	}
	return err
}

// sendNext sends the next events, none above folded.
func (s *logEventStream) sendNext(ctx context.Context, folded uint64) error {
	items, err := s.h.audit.trail(ctx, s.after, logEventsAtOnce)
	if err != nil {
		return err
	}
	refused, err := s.h.audit.refusedAmong(items)
	if err != nil {
		return err
	}
	text := []byte{}
	for _, m := range items {
		if m.Seq > folded {
			break
		}
		s.after = m.Seq
		e := s.h.show(m, refused[m.Seq])
		if !s.w.has(e) {
			continue
		}
		if text, err = s.frame(text, e, m); err != nil {
			return err
		}
		if len(text) >= maxFrames {
			if err := s.send(string(text)); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	if n := len(items); n == 0 || items[n-1].Seq > folded {
		s.after = folded // no more up to there, of what this server shows of the log
	}
	if len(text) == 0 {
		return s.alive()
	}
	return s.send(string(text))
}

// maxFrames bounds the bytes of frames that wait to be sent: a policy may change a thousand
// rules at a time.
const maxFrames = 256 << 10

// frame appends the frame of an event.
func (s *logEventStream) frame(text []byte, e resource.LogEvent, m Trailed) ([]byte, error) {
	if err := s.h.changed(&e, m, s.who); err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text, "id: %d\nevent: log_event\ndata: %s\n\n", m.Seq, body), nil
}

// show is an event that was folded.
func (h *logEventHandlers) show(m Trailed, code string) resource.LogEvent {
	e := resource.LogEvent{AuditEntry: h.audit.entry(m, code), Verdict: verdictApplied}
	if code != "" {
		e.Verdict = verdictRejected
	}
	about, ok := wire.ParseSubject(m.Subject)
	if !ok {
		return e
	}
	if about.Project != uuid.Nil {
		e.ProjectID = about.Project.String()
	}
	switch about.Family {
	case policy.FamilyPolicy:
		e.PolicyID = about.ID
	case policy.FamilyNode, policy.FamilyArtifact:
		e.NodeID = about.ID
	}
	return e
}
