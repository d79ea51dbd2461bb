package streams

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// DefaultTombstoneTTL is how long the announcement of a deletion is kept.
const DefaultTombstoneTTL = 30 * 24 * time.Hour

// NodesOptions matter when the stream is made, but for LogID and TombstoneTTL.
type NodesOptions struct {
	TombstoneTTL time.Duration // 0 is 30 days
	// LogID is the identity of the log whose announcements the stream carries (Log.ID). A stream made for another log
	// is refused with *OtherLogError. "": not checked.
	LogID string
	// Above: the first sequence of a new stream exceeds it. It is the last sequence known of the stream before.
	Above uint64
}

// Nodes is stream EDICT_NODES: the last announcement of every (node, name), the
// fences and the marks. It is derived from the log and can be made anew.
type Nodes struct {
	c        *Conn
	first    uint64
	created  time.Time
	replicas int
	ttl      time.Duration
	batch    *batcher
	maxBytes int // of one answer to Last
}

// OtherLogError: the node stream carries another log's announcements. What it
// holds means nothing for this one: RemakeNodes.
type OtherLogError struct {
	Have, Want string // log identities; Have is "" when the stream names none
	First      uint64 // of the stream, for RemakeNodes
}

// Error says which logs.
func (e *OtherLogError) Error() string {
	return fmt.Sprintf("%s was made for log %q, not %q; it is derived and has to be made anew", NodesStream, e.Have, e.Want)
}

// OpenNodes makes the stream, or checks the one that exists: *ConfigError,
// *OtherLogError. made says which; a stream that was made is empty and has to
// be synced.
func OpenNodes(ctx context.Context, c *Conn, opt NodesOptions) (n *Nodes, made bool, err error) {
	info, made, err := c.openStream(ctx, nodesConfig(opt, c.Replicas(), time.Now()), nodesFaults)
	if err != nil {
		return nil, false, fmt.Errorf("open the node stream: %w", err)
	}
	first, _ := strconv.ParseUint(info.Config.Metadata[metaFirst], 10, 64) // checked
	if have := info.Config.Metadata[metaLog]; opt.LogID != "" && have != opt.LogID {
		return nil, false, fmt.Errorf("open the node stream: %w", &OtherLogError{Have: have, Want: opt.LogID, First: first})
	}
	ttl := opt.TombstoneTTL
	if ttl <= 0 {
		ttl = DefaultTombstoneTTL
	}
	return &Nodes{
		c:        c,
		first:    first,
		created:  info.Created.UTC(),
		replicas: info.Config.Replicas,
		ttl:      ttl,
		batch:    newBatcher(c),
		maxBytes: max(8<<20, c.MaxPayload()),
	}, made, nil
}

// nodesConfig numbers the stream from the microsecond it is made in: no stream
// stores a million messages a second, so sequences of one that is lost and of
// the one made in its place never meet, even within a second.
func nodesConfig(opt NodesOptions, replicas int, now time.Time) jetstream.StreamConfig {
	first := max(uint64(max(0, now.UnixMicro())), opt.Above+1)
	republish := nodesRepublish
	return jetstream.StreamConfig{
		Name:               NodesStream,
		Description:        "What Edict told its nodes last; derived from " + LogStream,
		Subjects:           nodesSubjects,
		Storage:            jetstream.FileStorage,
		Replicas:           replicas,
		MaxMsgsPerSubject:  1,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		AllowMsgTTL:        true,
		RePublish:          &republish,
		FirstSeq:           first,
		Metadata: map[string]string{
			metaFirst: strconv.FormatUint(first, 10),
			metaLog:   opt.LogID,
		},
	}
}

// First is the stream's first sequence, ever: what lies below belongs to a
// stream before it.
func (n *Nodes) First() uint64 { return n.first }

// Created is when the stream was made, by the server's clock.
func (n *Nodes) Created() time.Time { return n.created }

// TombstoneTTL is how long the announcement of a deletion is to be kept.
func (n *Nodes) TombstoneTTL() time.Duration { return n.ttl }

// MaxBatch is the most messages of one PublishBatch: 9,999 on the embedded
// server, 999 on others, one below what they take.
func (n *Nodes) MaxBatch() int { return n.c.maxBatch - 1 }

// MaxMessage is the most bytes of one message, headers included.
func (n *Nodes) MaxMessage() int { return n.c.MaxPayload() }

// State is the stream's extent, from its leader. *DamagedError when the stream
// was remade since it was opened.
func (n *Nodes) State(ctx context.Context) (State, error) {
	info, err := n.c.streamInfo(ctx, NodesStream)
	if err != nil {
		return State{}, err
	}
	if err := n.same(info); err != nil {
		return State{}, err
	}
	return stateOf(info), nil
}

func (n *Nodes) same(info *jetstream.StreamInfo) error {
	if !info.Created.Equal(n.created) {
		return &DamagedError{Detail: fmt.Sprintf("%s was remade %s; open it again", NodesStream, info.Created.UTC().Format(time.RFC3339Nano))}
	}
	return nil
}

// PublishBatch publishes msgs as one atomic batch: all are stored, with
// sequences that follow each other from first, or none. Errors: ErrWrongSequence,
// ErrDuplicate, ErrTooLarge, ErrMessageTooLarge, ErrBusy, ErrStorage: nothing
// was stored; ErrUnknown: read the fence.
func (n *Nodes) PublishBatch(ctx context.Context, msgs []Outgoing) (first uint64, err error) {
	return n.batch.publish(ctx, msgs)
}

// Follow yields batches of every message from sequence from on (below First is
// First), in order, until ctx ends. Gaps are normal: newer messages replace
// older ones. The iteration ends with *DamagedError when the stream was remade
// or ends before from - 1.
func (n *Nodes) Follow(ctx context.Context, from uint64) iter.Seq2[[]Message, error] {
	f := follower{c: n.c, stream: NodesStream, next: max(from, n.first), verify: n.same}
	return f.follow(ctx)
}

// Read yields, through a temporary consumer, the messages with from <= Seq <=
// to that match filters (wildcards allowed, none of them within another), and
// ends. to must be a sequence the stream has reached. A message that is
// replaced while the read goes on may be missing: its successor lies above to.
func (n *Nodes) Read(ctx context.Context, from, to uint64, filters ...string) iter.Seq2[[]Message, error] {
	return func(yield func([]Message, error) bool) {
		if to < from || to < n.first {
			return
		}
		if err := n.settle(ctx, to); err != nil {
			if ctx.Err() == nil {
				yield(nil, fmt.Errorf("read %s up to %d: %w", NodesStream, to, err))
			}
			return
		}
		f := follower{c: n.c, stream: NodesStream, filters: filters, next: max(from, n.first), to: to, verify: n.same}
		f.follow(ctx)(yield)
	}
}

// settle waits until every replica that is up has what the leader has, to
// included: a temporary consumer may live on any of them.
func (n *Nodes) settle(ctx context.Context, to uint64) error {
	for {
		info, err := n.c.streamInfo(ctx, NodesStream)
		if err != nil {
			return err
		}
		if err := n.same(info); err != nil {
			return err
		}
		if last := stateOf(info).Last; last < to {
			return fmt.Errorf("the stream ends at %d", last)
		}
		behind := false
		if info.Cluster != nil {
			for _, r := range info.Cluster.Replicas {
				behind = behind || !r.Offline && (!r.Current || r.Lag > 0)
			}
		}
		if !behind {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
