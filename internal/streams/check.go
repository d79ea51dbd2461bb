package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/wire"
)

// ConfigError: a stream exists whose settings contradict what Edict promises.
// It names every such setting and what it must be.
type ConfigError struct {
	Stream string
	Faults []Fault
	// Dir is where the embedded server has its files: it does not run when a start was
	// refused. "": the servers are elsewhere.
	Dir string
}

// Fault is one setting that contradicts a promise.
type Fault struct {
	Setting string // as the server names it
	Have    string
	Need    string // what it must be, and why
}

// Error lists every fault on a line of its own.
func (e *ConfigError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stream %s exists with settings that contradict what edict promises; change them (nats stream edit %s)", e.Stream, e.Stream)
	if e.Dir != "" {
		fmt.Fprintf(&b, ", while the plane is stopped on its files: nats-server -a 127.0.0.1 -js -sd %s:", e.Dir)
	} else {
		b.WriteString(" or use another account:")
	}
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "\n  %s is %s: must be %s", f.Setting, f.Have, f.Need)
	}
	return b.String()
}

// faults collects what contradicts.
type faults []Fault

func (f *faults) unless(ok bool, setting string, have any, need string) {
	if !ok {
		*f = append(*f, Fault{Setting: setting, Have: fmt.Sprint(have), Need: need})
	}
}

// kept checks what every stream of ours promises: what was acknowledged stays,
// as it was published, on disk. A limit that refuses new messages is stricter
// and fine; one that drops old messages is a contradiction.
func (f *faults) kept(cfg jetstream.StreamConfig) {
	f.unless(cfg.Storage == jetstream.FileStorage, "storage", cfg.Storage, "file: acknowledged messages survive a restart")
	f.unless(cfg.Retention == jetstream.LimitsPolicy, "retention", cfg.Retention, "limits: reading must not remove messages")
	f.unless(cfg.MaxAge == 0, "max_age", cfg.MaxAge, "0: messages do not age out")
	trims := cfg.Discard == jetstream.DiscardOld
	f.unless(!trims || cfg.MaxMsgs <= 0, "max_msgs", cfg.MaxMsgs, "-1 (or discard new): old messages are not dropped for new ones")
	f.unless(!trims || cfg.MaxBytes <= 0, "max_bytes", cfg.MaxBytes, "-1 (or discard new): old messages are not dropped for new ones")
	f.unless(!cfg.NoAck, "no_ack", cfg.NoAck, "false: a write is acknowledged when it is stored")
	f.unless(!cfg.Sealed, "sealed", cfg.Sealed, "false: a sealed stream takes no messages; it cannot be unsealed, restore it under another name")
	f.unless(cfg.Mirror == nil, "mirror", "set", "absent: a mirror takes no messages of its own")
	f.unless(len(cfg.Sources) == 0, "sources", len(cfg.Sources), "absent: messages are published, not copied from other streams")
	f.unless(cfg.SubjectTransform == nil, "subject_transform", "set", "absent: subjects are stored as published")
	f.unless(!cfg.AllowMsgCounter, "allow_msg_counter", cfg.AllowMsgCounter, "false: it takes counters only")
	f.unless(cfg.PersistMode == jetstream.DefaultPersistMode, "persist_mode", cfg.PersistMode, "default: an acknowledged message is written")
	f.unless(cfg.AllowDirect, "allow_direct", cfg.AllowDirect, "true: single messages are read directly")
}

func (f *faults) subjects(have, need []string) {
	for _, s := range need {
		covered := false
		for _, h := range have {
			covered = covered || covers(h, s)
		}
		f.unless(covered, "subjects", strings.Join(have, " "), "extended by "+s)
	}
}

// covers reports whether every subject that matches need matches have.
func covers(have, need string) bool {
	h, n := strings.Split(have, "."), strings.Split(need, ".")
	for i, t := range h {
		if t == ">" {
			return i < len(n)
		}
		if i >= len(n) || n[i] == ">" || t != "*" && t != n[i] {
			return false
		}
	}
	return len(h) == len(n)
}

func logFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, logSubjects)
	f.kept(cfg)
	f.unless(cfg.MaxMsgsPerSubject <= 0 || cfg.Discard == jetstream.DiscardNew && cfg.DiscardNewPerSubject,
		"max_msgs_per_subject", cfg.MaxMsgsPerSubject, "-1: the log keeps every event")
	f.unless(cfg.DenyDelete, "deny_delete", cfg.DenyDelete, "true: events are never removed (it can be set, not unset)")
	f.unless(!cfg.AllowRollup, "allow_rollup_hdrs", cfg.AllowRollup, "false: a roll-up removes events")
	f.unless(!cfg.AllowMsgTTL, "allow_msg_ttl", cfg.AllowMsgTTL, "false: events do not expire (it cannot be unset: make the stream anew)")
	f.unless(!cfg.AllowMsgSchedules, "allow_msg_schedules", cfg.AllowMsgSchedules, "false: an event is one message")
	f.unless(cfg.AllowAtomicPublish, "allow_atomic", cfg.AllowAtomicPublish, "true: writers are grouped into atomic batches")
	f.unless(cfg.Duplicates >= logDuplicates, "duplicate_window", cfg.Duplicates, "2m or more: a repeated write is one event")
	p, ok := cfg.Metadata[metaPartitions]
	n, err := strconv.Atoi(p)
	f.unless(ok && err == nil && n >= 1 && n <= MaxPartitions, "metadata "+metaPartitions, quoteOrNone(p, ok),
		fmt.Sprintf("the number of node partitions, 1..%d (64 unless you know better; never change it afterwards)", MaxPartitions))
	if base, ok := cfg.Metadata[metaBase]; ok {
		n, err := strconv.ParseUint(base, 10, 64)
		f.unless(err == nil && n <= MaxBase, "metadata "+metaBase, strconv.Quote(base), fmt.Sprintf("a whole number, at most %d: what event ids count from", uint64(MaxBase)))
	}
	return f
}

func rejectedFaults(cfg jetstream.StreamConfig) []Fault {
	var f faults
	f.subjects(cfg.Subjects, rejectedSubjects)
	f.kept(cfg)
	f.unless(cfg.DenyDelete, "deny_delete", cfg.DenyDelete, "true: a rejection is written once and stays")
	f.unless(cfg.DenyPurge, "deny_purge", cfg.DenyPurge, "true: a rejection is written once and stays")
	f.unless(!cfg.AllowRollup, "allow_rollup_hdrs", cfg.AllowRollup, "false: a roll-up removes rejections")
	return f
}

func quoteOrNone(s string, ok bool) string {
	if !ok {
		return "absent"
	}
	return strconv.Quote(s)
}

// Keys of stream metadata.
const (
	metaPartitions = "edict.partitions"
	metaBase       = "edict.base"       // Log.Base
	metaMade       = "edict.made"       // names the creation; no meaning beyond
	metaUnfinished = "edict.unfinished" // the log is being imported: UnfinishedError
)

const logDuplicates = 2 * time.Minute

// MaxPartitions is how many partitions of nodes a log may have.
const MaxPartitions = 4096

var (
	// logSubjects are the families of the first release; laterSubjects came
	// after it, and a log that was made before them is extended.
	logSubjects      = []string{wire.PrefixLog + "*.policy.*", wire.PrefixLog + "*.node.*"}
	laterSubjects    = []string{wire.PrefixAdmission + "*", wire.PrefixLog + "*.artifact.*", wire.PrefixAccess + "*", wire.PrefixKey + "*", wire.PrefixProject + "*"}
	rejectedSubjects = []string{wire.PrefixRejected + "*"}
)

// openStream returns the stream that is there, or makes it by cfg. Two
// processes that start at once both find it; made is true for the one that
// made it. A stream that exists is not changed here.
func (c *Conn) openStream(ctx context.Context, cfg jetstream.StreamConfig, check func(jetstream.StreamConfig) []Fault) (info *jetstream.StreamInfo, made bool, err error) {
	patient, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	var b backoff.Backoff
	for {
		if info, made, err = c.findOrMake(patient, cfg); err == nil {
			break
		}
		if !unsettled(err) || b.Pause(patient) != nil {
			return nil, false, err
		}
	}
	if f := allFaults(info.Config, c.replicas, check); len(f) > 0 {
		refused := &ConfigError{Stream: cfg.Name, Faults: f}
		if c.server != nil {
			refused.Dir = c.server.opt.Dir
		}
		return nil, false, refused
	}
	return info, made, nil
}

// allFaults are what check finds, and fewer replicas than a process asks for.
func allFaults(cfg jetstream.StreamConfig, replicas int, check func(jetstream.StreamConfig) []Fault) []Fault {
	f := faults(check(cfg))
	f.unless(cfg.Replicas >= replicas, "num_replicas", cfg.Replicas, fmt.Sprintf("%d or more, as --replicas says", replicas))
	return f
}

// extend adds the subjects that the stream lacks, and changes nothing else. Of
// two processes that do so at once, both ask for the same.
func (c *Conn) extend(ctx context.Context, info *jetstream.StreamInfo, subjects []string) (*jetstream.StreamInfo, error) {
	cfg := info.Config
	for _, need := range subjects {
		if !slices.ContainsFunc(cfg.Subjects, func(have string) bool { return covers(have, need) }) {
			cfg.Subjects = append(slices.Clip(cfg.Subjects), need)
		}
	}
	if len(cfg.Subjects) == len(info.Config.Subjects) {
		return info, nil
	}
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	s, err := c.js.UpdateStream(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("add subjects %v to stream %s, which an older edict made: %w", subjects, cfg.Name, err)
	}
	return s.CachedInfo(), nil
}

// A stream that another process is making right now, or whose leader is being
// elected, leaves questions without an answer: openTry bounds one of them,
// openPatience all.
const (
	openTry      = 2 * time.Second
	openPatience = 30 * time.Second
)

func (c *Conn) findOrMake(ctx context.Context, cfg jetstream.StreamConfig) (info *jetstream.StreamInfo, made bool, err error) {
	try, cancel := context.WithTimeout(ctx, openTry)
	defer cancel()
	info, err = c.streamInfo(try, cfg.Name)
	if errors.Is(err, ErrNotFound) {
		return c.createStream(ctx, cfg)
	}
	return info, false, err
}

// askAgain asks what changes nothing, requestTimeout long in all, and asks again
// where it hears nothing.
func (c *Conn) askAgain(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	patient, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		resp, err := c.ask(patient, m, openTry)
		if !errors.Is(err, context.DeadlineExceeded) || patient.Err() != nil {
			return resp, err
		}
	}
}

// unsettled errors pass once a cluster has agreed on what is being made.
func unsettled(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout):
		return true
	case errors.As(err, &api):
		return api.ErrorCode == codeUnavailable || api.ErrorCode == codeNotLeader
	}
	return false
}

// Leaderless reports whether an error means that JetStream was reached and did
// not answer, as it does while fewer servers run than must agree, or that the
// connection was lost meanwhile. It passes by itself.
func Leaderless(err error) bool {
	var unreached *ConnectError
	if errors.Is(err, ErrNotFound) || errors.As(err, &unreached) {
		return false
	}
	return unsettled(err) || errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrBusy)
}

// UntilAnswered calls ask until its error is not Leaderless, or ctx ends, and
// returns what it returned last.
func UntilAnswered(ctx context.Context, ask func() error) error {
	var b backoff.Backoff
	for {
		err := ask()
		if !Leaderless(err) || b.Pause(ctx) != nil {
			return err
		}
	}
}

// leaderPause is how soon servers without a leader are asked again at a start.
const leaderPause = time.Second

// AwaitLeader takes a step of a start again while the servers' JetStream has no
// leader, and says so in the log, at once and then once a minute: a process that
// ended would only be started again. It returns what step returned last.
func AwaitLeader(ctx context.Context, log *slog.Logger, step func() error) error {
	say := rate.Sometimes{First: 1, Interval: time.Minute}
	for {
		err := step()
		if !Leaderless(err) || ctx.Err() != nil {
			return err
		}
		say.Do(func() {
			log.Warn("JetStream does not answer, and the start waits for it: do most of its servers run?", "error", err)
		})
		if backoff.Sleep(ctx, leaderPause) != nil {
			return err
		}
	}
}

func (c *Conn) createStream(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, bool, error) {
	// Create succeeds for whoever asks for equal settings; the nonce makes them
	// unequal, so that one process alone has made the stream.
	cfg.Metadata[metaMade] = uuid.NewString()
	var b backoff.Backoff
	for try := 1; ; try++ {
		info, err := c.tryCreate(ctx, cfg)
		var api *jetstream.APIError
		switch {
		case err == nil:
			return info, true, nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			try, cancel := context.WithTimeout(ctx, openTry)
			defer cancel()
			info, err := c.streamInfo(try, cfg.Name)
			return info, false, err
		case errors.As(err, &api) && api.ErrorCode == codeCreateFailed && try < createTries && b.Pause(ctx) == nil:
			// The server still removes the files of a stream of that name.
			continue
		}
		return nil, false, fmt.Errorf("make stream %s: %w", cfg.Name, err)
	}
}

// createTries bounds the tries at a stream whose store cannot be made.
const createTries = 8

func (c *Conn) tryCreate(ctx context.Context, cfg jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	ctx, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	s, err := c.js.CreateStream(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// streamInfo asks the stream's leader; ErrNotFound when there is no such stream.
func (c *Conn) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	asked, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	info, err := infoOf(asked, c.js, name)
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, errNotFollowed):
		return nil, fmt.Errorf("ask for stream %s: %w: %w", name, ErrNoAnswer, err)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("stream %s: %w", name, ErrNotFound)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("ask for stream %s: %w: %w", name, ErrNoAnswer, cmp.Or(c.link.over(), errors.New("not connected")))
	case asked.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("ask for stream %s: %w: %w", name, ErrNoAnswer, cmp.Or(c.link.over(), err))
	}
	return nil, fmt.Errorf("ask for stream %s: %w", name, err)
}

// State is a stream's extent, as its leader gives it.
type State struct {
	First, Last uint64 // an empty stream has Last = First - 1
	Bytes       uint64
	Messages    uint64
	MaxBytes    uint64 // beyond which the server refuses messages; 0: no limit of the stream
}

func stateOf(info *jetstream.StreamInfo) State {
	s := State{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes, Messages: info.State.Msgs}
	s.MaxBytes = uint64(max(info.Config.MaxBytes, 0)) //nolint:gosec // not below 0
	if s.Messages == 0 && s.First <= s.Last {
		s.First = s.Last + 1
	}
	return s
}
