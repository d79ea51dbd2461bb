package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
)

// DecisionsStream keeps what admission policies decided, for a while.
const DecisionsStream = "EDICT_DECISIONS"

// Decision is one decision to be kept: JSON, and in one word what became of the
// request, which is the last token of the subject edict.decision.<outcome>.
type Decision struct {
	Outcome string
	Body    []byte
}

// DecisionsOptions matter when the stream is made; an existing one keeps its
// own limits.
type DecisionsOptions struct {
	MaxAge   time.Duration // 0: 30 days
	MaxBytes int64         // 0: 1 GiB
}

// Limits of a stream of decisions that is made without others.
const (
	DefaultDecisionsAge   = 30 * 24 * time.Hour
	DefaultDecisionsBytes = 1 << 30
)

// Decisions is stream EDICT_DECISIONS: decisions of admission policies, oldest
// first, the oldest dropped for new ones. Nothing is derived from it.
type Decisions struct {
	c     *Conn
	batch *batcher
	made  time.Time
}

// OpenDecisions makes the stream, or checks the one that exists: *ConfigError.
func OpenDecisions(ctx context.Context, c *Conn, opt DecisionsOptions) (*Decisions, error) {
	info, _, err := c.openStream(ctx, jetstream.StreamConfig{
		Name:               DecisionsStream,
		Description:        "What Edict's admission policies decided; the oldest go first",
		Subjects:           []string{wire.PrefixDecision + "*"},
		Storage:            jetstream.FileStorage,
		Replicas:           c.Replicas(),
		Discard:            jetstream.DiscardOld,
		MaxAge:             cmp.Or(opt.MaxAge, DefaultDecisionsAge),
		MaxBytes:           cmp.Or(opt.MaxBytes, DefaultDecisionsBytes),
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Metadata:           map[string]string{},
	}, decisionsFaults)
	if err != nil {
		return nil, fmt.Errorf("open the decision log: %w", err)
	}
	return &Decisions{c: c, batch: newBatcher(c), made: info.Created}, nil
}

// FindDecisions is OpenDecisions, but makes nothing: ErrNotFound.
func FindDecisions(ctx context.Context, c *Conn) (*Decisions, error) {
	if _, err := c.streamInfo(ctx, DecisionsStream); err != nil {
		return nil, err
	}
	return OpenDecisions(ctx, c, DecisionsOptions{})
}

func decisionsFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, []string{wire.PrefixDecision + "*"})
	f.unless(cfg.Storage == jetstream.FileStorage, "storage", cfg.Storage, "file: decisions survive a restart")
	f.unless(cfg.Retention == jetstream.LimitsPolicy, "retention", cfg.Retention, "limits: reading must not remove decisions")
	f.unless(cfg.MaxBytes > 0 || cfg.MaxAge > 0 || cfg.MaxMsgs > 0, "max_bytes", cfg.MaxBytes, "above 0 (or max_age, or max_msgs): decisions are kept for a while, not for ever")
	f.unless(cfg.Discard == jetstream.DiscardOld, "discard", cfg.Discard, "old: a new decision takes the place of the oldest")
	f.unless(cfg.MaxMsgsPerSubject <= 0, "max_msgs_per_subject", cfg.MaxMsgsPerSubject, "-1: a subject is an outcome, not a decision")
	f.unless(!cfg.NoAck, "no_ack", cfg.NoAck, "false: a decision that is not stored is counted")
	f.unless(cfg.SubjectTransform == nil, "subject_transform", "set", "absent: the subject names the outcome")
	f.unless(cfg.AllowAtomicPublish, "allow_atomic", cfg.AllowAtomicPublish, "true: decisions are written together")
	f.unless(cfg.AllowDirect, "allow_direct", cfg.AllowDirect, "true: single messages are read directly")
	return f
}

// MaxDecision is the largest body of a decision, in bytes.
func (d *Decisions) MaxDecision() int {
	const around = 1 << 10 // subject and headers
	return d.c.MaxPayload() - around
}

// MaxDecisions is how many are written together: enough to share a write of the disk, and few
// enough that requests do not wait behind what stores them.
const MaxDecisions = 128

// Write stores decisions, at most MaxDecisions, together or not at all. While
// the server takes none it tries again until ctx ends. ErrUnknown: they may be
// stored.
func (d *Decisions) Write(ctx context.Context, decisions []Decision) error {
	outs := make([]Outgoing, len(decisions))
	for i, x := range decisions {
		outs[i] = Outgoing{Subject: wire.PrefixDecision + x.Outcome, Body: x.Body}
	}
	var b backoff.Backoff
	for {
		_, err := d.batch.publish(ctx, outs)
		if err == nil || !errors.Is(err, ErrBusy) || b.Pause(ctx) != nil {
			return err
		}
	}
}

// State is the stream's extent, from its leader.
func (d *Decisions) State(ctx context.Context) (State, error) {
	info, err := d.c.streamInfo(ctx, DecisionsStream)
	if err != nil {
		return State{}, err
	}
	return stateOf(info), nil
}

// Read yields batches of decisions from sequence from to sequence to, both
// inclusive, oldest first. Those that were dropped meanwhile are missing. The
// iteration ends with an error when it cannot go on.
func (d *Decisions) Read(ctx context.Context, from, to uint64) iter.Seq2[[]Message, error] {
	f := follower{c: d.c, stream: DecisionsStream, next: max(from, 1), to: to, verify: d.same}
	return f.follow(ctx)
}

// Follow yields batches of decisions from sequence from on, in order, until ctx ends.
// Those that were dropped before they were read are missing. The iteration ends with
// *DamagedError when the stream was deleted, or made anew.
func (d *Decisions) Follow(ctx context.Context, from uint64) iter.Seq2[[]Message, error] {
	f := follower{c: d.c, stream: DecisionsStream, next: max(from, 1), verify: d.same}
	return f.follow(ctx)
}

func (d *Decisions) same(info *jetstream.StreamInfo) error {
	if !info.Created.Equal(d.made) {
		return &DamagedError{Detail: DecisionsStream + " was made anew; open it again"}
	}
	return nil
}
