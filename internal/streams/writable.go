package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/wire"
)

// stopsWrites are the settings of a log that take an event's way into it: with any
// of them otherwise, no write is acknowledged.
var stopsWrites = []string{"subjects", "no_ack", "sealed", "mirror", "subject_transform", "allow_msg_counter", "allow_atomic"}

// Writable says why the log would take no event of the plane now, by the settings
// and the extent that the stream's leader has, and by the room in its JetStream; nil: it
// would. Nothing is written, so a publish may fail all the same.
func (l *Log) Writable(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err != nil {
		return err
	}
	var why []string
	if missing := uncovered(info.Config.Subjects, slices.Concat(logSubjects, laterSubjects)); len(missing) > 0 {
		why = append(why, fmt.Sprintf("subjects is %s, without %s", strings.Join(info.Config.Subjects, " "), strings.Join(missing, " ")))
	}
	for _, f := range logFaults(info.Config) {
		if f.Setting != "subjects" && slices.Contains(stopsWrites, f.Setting) {
			why = append(why, fmt.Sprintf("%s is %s", f.Setting, f.Have))
		}
	}
	why = append(why, exhausted(info)...)
	if len(why) > 0 {
		return fmt.Errorf("stream %s takes no events as it is set (nats stream edit %s): %s", LogStream, LogStream, strings.Join(why, "; "))
	}
	return l.room(ctx)
}

// roomPatience bounds a question that is one of several checks (Conn.patience).
const roomPatience = time.Second

// room asks the server that leads the log for its word on storage, where it refused
// something before, or gave no answer: no API tells what a server, and not only the account,
// may store, nor that one which says it leads takes what is sent. A
// message of a batch that names no place in it is refused, last of all for that; and
// should a server not know batches, for the stream that it names.
func (l *Log) room(ctx context.Context) error {
	silent := l.c.silent.Load()
	if l.c.server != nil || !silent && !l.c.refused.Load() { // whose disk an embedded server writes to sees to that (Server.Refuse)
		return nil
	}
	m := nats.NewMsg(wire.PrefixLog + "none.node.none")
	m.Header.Set(headerBatchID, "room")
	m.Header.Set(headerExpectName, "none")
	l.c.refused.Store(false) // store sets it again, where this or anything meanwhile is refused for want of room
	switch _, err := l.c.store(ctx, m, l.c.patience); {
	case errors.Is(err, ErrUnknown) && silent && l.c.Connected():
		l.c.refused.Store(true)
		return fmt.Errorf("the server that leads %s answers no event that is sent to it: see that all servers which are to keep it do (nats stream info %s), and restart the one that leads it", LogStream, LogStream)
	case errors.Is(err, ErrStorage):
		return fmt.Errorf("%w: raise max_file_store of the server that leads %s, or the account's max_disk (nats stream info %s), or remove what is not needed", err, LogStream, LogStream)
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrBusy): // it did not say
		l.c.refused.Store(true)
	}
	return nil
}

// Settings is a *ConfigError of the settings of the log's stream that contradict what Edict
// promises, as somebody may have made them since the start; nil: none do.
func (l *Log) Settings(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err != nil {
		return err
	}
	if f := allFaults(info.Config, l.c.replicas, logFaults); len(f) > 0 {
		return &ConfigError{Stream: LogStream, Faults: f}
	}
	return nil
}

// uncovered are the subjects of need that none of have matches.
func uncovered(have, need []string) []string {
	return slices.DeleteFunc(slices.Clone(need), func(s string) bool {
		return slices.ContainsFunc(have, func(h string) bool { return covers(h, s) })
	})
}

// exhausted are the limits of a stream that it has reached; it refuses then, rather
// than drop what it has.
func exhausted(info *jetstream.StreamInfo) (reached []string) {
	if most := info.Config.MaxMsgs; most > 0 && info.State.Msgs >= uint64(most) {
		reached = append(reached, fmt.Sprintf("max_msgs is %d, and it holds %d", most, info.State.Msgs))
	}
	if most := info.Config.MaxBytes; most > 0 && info.State.Bytes >= uint64(most) {
		reached = append(reached, fmt.Sprintf("max_bytes is %d, and it holds %d", most, info.State.Bytes))
	}
	return reached
}
