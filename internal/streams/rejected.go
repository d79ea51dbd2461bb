package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Rejection is one event the fold refused, as EDICT_REJECTED stores it and
// operators read it.
type Rejection struct {
	Seq        uint64             `json:"seq"` // of the event, in the log
	Subject    string             `json:"subject"`
	EventID    string             `json:"event_id"` // "" when none could be read
	Type       string             `json:"type"`     // likewise
	Code       string             `json:"code"`     // a fold code
	Detail     string             `json:"detail"`
	Violations []policy.Violation `json:"violations,omitempty"`
	Time       time.Time          `json:"time"` // the event's log timestamp
}

// Rejected is stream EDICT_REJECTED: a rejection per subject
// edict.rejected.<log sequence>, written once by whoever comes first.
type Rejected struct {
	c *Conn
}

// OpenRejected makes the stream, or checks the one that exists: *ConfigError.
func OpenRejected(ctx context.Context, c *Conn) (*Rejected, error) {
	_, _, err := c.openStream(ctx, jetstream.StreamConfig{
		Name:        RejectedStream,
		Description: "Events of Edict's log that the fold refused, each once",
		Subjects:    rejectedSubjects,
		Storage:     jetstream.FileStorage,
		Replicas:    c.Replicas(),
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		Metadata:    map[string]string{},
	}, rejectedFaults)
	if err != nil {
		return nil, fmt.Errorf("open the rejected events: %w", err)
	}
	return &Rejected{c: c}, nil
}

// Write stores x once. One that is there already, from another worker or an
// earlier replay, is success; so a lost acknowledgement is simply asked again
// until ctx ends (30 s without a deadline).
func (r *Rejected) Write(ctx context.Context, x Rejection) error {
	body, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("write rejection of %d: %w", x.Seq, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	o := Outgoing{Subject: wire.PrefixRejected + strconv.FormatUint(x.Seq, 10), Body: body, HasExpect: true}
	var b backoff.Backoff
	for gone := 0; ; {
		_, err := r.c.store(ctx, newEncoder("").encode(&o, 0), requestTimeout)
		switch {
		case err == nil, errors.Is(err, ErrWrongSequence) && !inFlight(err):
			return nil
		case !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrWrongSequence):
			return fmt.Errorf("write rejection of %d: %w", x.Seq, err)
		}
		if errors.Is(err, ErrBusy) && r.removed(ctx) {
			if gone++; gone == goneTries {
				_, oerr := OpenRejected(ctx, r.c)
				err = errors.Join(err, oerr)
			}
		}
		if b.Pause(ctx) != nil {
			return fmt.Errorf("write rejection of %d: %w", x.Seq, err)
		}
	}
}

// removed reports whether the stream is not there. A server that goes down or comes up may
// say so for a moment.
func (r *Rejected) removed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	_, err := r.c.streamInfo(ctx, RejectedStream)
	return errors.Is(err, ErrNotFound)
}
