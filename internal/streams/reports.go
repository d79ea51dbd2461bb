package streams

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// ReportsStream keeps what nodes said last about what they applied.
const ReportsStream = "EDICT_REPORTS"

// ReportSubject is where a node reports what it applied: edict.report.node.<id>.
func ReportSubject(id policy.NodeID) string { return wire.PrefixReport + string(id) }

// ReportNode is the node that a report's subject names.
func ReportNode(subject string) (policy.NodeID, error) {
	return policy.ParseNodeID(strings.TrimPrefix(subject, wire.PrefixReport))
}

// Reports is stream EDICT_REPORTS: the last report of every node. Nodes say it
// again whenever they connect, so the stream may be deleted at any time, and its
// writes need not wait for the disk.
type Reports struct {
	c    *Conn
	same func(*jetstream.StreamInfo) error
}

// OpenReports makes the stream, or checks the one that exists: *ConfigError.
func OpenReports(ctx context.Context, c *Conn) (*Reports, error) {
	cfg := jetstream.StreamConfig{
		Name:              ReportsStream,
		Description:       "What nodes last said they applied; they say it again",
		Subjects:          []string{wire.PrefixReport + "*"},
		Storage:           jetstream.FileStorage,
		Replicas:          c.Replicas(),
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxReportMessage,
		AllowDirect:       true,
		Metadata:          map[string]string{},
	}
	if cfg.Replicas == 1 {
		cfg.PersistMode = jetstream.AsyncPersistMode
	}
	info, _, err := c.openStream(ctx, cfg, reportsFaults)
	if err != nil {
		return nil, fmt.Errorf("open the reports: %w", err)
	}
	made := info.Created
	return &Reports{c: c, same: func(info *jetstream.StreamInfo) error {
		if !info.Created.Equal(made) {
			return &DamagedError{Detail: ReportsStream + " was made anew; open it again"}
		}
		return nil
	}}, nil
}

// maxReportMessage is room for the longest report and a few headers, such as a
// trace's.
const maxReportMessage = 2 * policy.MaxReport

func reportsFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, []string{wire.PrefixReport + "*"})
	f.unless(cfg.MaxMsgsPerSubject == 1, "max_msgs_per_subject", cfg.MaxMsgsPerSubject, "1: a newer report replaces the older one")
	f.unless(!cfg.DiscardNewPerSubject, "discard_new_per_subject", cfg.DiscardNewPerSubject, "false: a newer report replaces the older one")
	f.unless(cfg.Retention == jetstream.LimitsPolicy, "retention", cfg.Retention, "limits: every worker reads every report")
	f.unless(!cfg.NoAck, "no_ack", cfg.NoAck, "false: a node gets an acknowledgement that its report was stored")
	f.unless(cfg.SubjectTransform == nil, "subject_transform", "set", "absent: the subject names the node")
	return f
}

// Publish puts a node's report in place of its last one and returns its
// sequence in the stream. Errors are those of a publish: ErrBusy, ErrUnknown,
// ErrStorage and others; a report may be sent again at any time.
func (r *Reports) Publish(ctx context.Context, id policy.NodeID, rep policy.Report) (seq uint64, err error) {
	o := Outgoing{Subject: ReportSubject(id), Body: policy.AppendReport(nil, rep)}
	a, err := r.c.store(ctx, newEncoder("").encode(&o, 0), requestTimeout)
	if err != nil {
		return 0, fmt.Errorf("publish the report of %s: %w", id, err)
	}
	return a.Seq, nil
}

// Forget removes the report of a subject, unless a newer one than that of sequence upTo has come.
func (r *Reports) Forget(ctx context.Context, subject string, upTo uint64) error {
	ctx, cancel := r.c.during(ctx, requestTimeout)
	defer cancel()
	s, err := r.c.js.Stream(ctx, ReportsStream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
	}
	if err != nil {
		return fmt.Errorf("forget the report of %s: %w", subject, err)
	}
	return nil
}

// State is the stream's extent, from its leader.
func (r *Reports) State(ctx context.Context) (State, error) {
	info, err := r.c.streamInfo(ctx, ReportsStream)
	if err != nil {
		return State{}, err
	}
	if err := r.same(info); err != nil {
		return State{}, err
	}
	return stateOf(info), nil
}

// Follow yields batches of reports from sequence from on, in order, until ctx
// ends. Gaps are normal. The iteration ends with *DamagedError when the stream
// was deleted, or made anew.
func (r *Reports) Follow(ctx context.Context, from uint64) iter.Seq2[[]Message, error] {
	f := follower{c: r.c, stream: ReportsStream, next: max(from, 1), verify: r.same}
	return f.follow(ctx)
}
