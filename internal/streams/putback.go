package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PutBack says what log is made of messages that another one had.
type PutBack struct {
	Partitions  int
	Base        uint64 // what its event ids count from
	Begins      uint64 // the sequence of its first event, ever; 0 is First
	First, Last uint64 // its sequences, all of which are given
	Origin      []byte // document of the origin at First, where that is not Begins
}

// ExistsError means that a server has a log, or the witness of one.
type ExistsError struct{ Detail string }

// Error says what is there, and what to do.
func (e *ExistsError) Error() string { return e.Detail }

// UnfinishedError means that the import of a log was cut off: nobody proved what is
// there.
type UnfinishedError struct{}

// Error says what to do.
func (*UnfinishedError) Error() string {
	return LogStream + " is being imported, or its import was cut off: run the same edict log import or edict restore again, which begins anew"
}

func finished(info *jetstream.StreamInfo) error {
	if info.Config.Metadata[metaUnfinished] != "" {
		return &UnfinishedError{}
	}
	return nil
}

// putBackMinor is the first nats-server 2.x that takes messages with their
// sequences and times, as its backups have them since.
const putBackMinor = 15

// PutBackLog makes the log of messages as another log had them: with their
// sequences, times, headers and bytes. Until Finish is called nobody can open it.
// What an earlier call left unfinished is made anew; a log that is there, and a
// witness that knows one, are an *ExistsError.
func PutBackLog(ctx context.Context, c *Conn, p PutBack, messages iter.Seq2[Message, error]) (*Log, error) {
	if v := c.nc.ConnectedServerVersion(); !atLeast(v, 2, putBackMinor) {
		return nil, fmt.Errorf("the server is version %q; to import a log takes nats-server 2.%d or newer: upgrade it", v, putBackMinor)
	}
	if err := c.makeRoom(ctx); err != nil {
		return nil, err
	}
	cfg := c.logConfig(p.Partitions, p.Base)
	cfg.Metadata[metaMade], cfg.Metadata[metaUnfinished] = uuid.NewString(), "true"
	if begins := cmp.Or(p.Begins, p.First); begins > 1 {
		cfg.FirstSeq = begins
	}
	to, err := c.beginRestore(ctx, cfg, p)
	if err != nil {
		return nil, fmt.Errorf("import the log: %w", err)
	}
	if err := c.sendMessages(ctx, to, p, messages); err != nil {
		return nil, fmt.Errorf("import the log: %w", err)
	}
	info, err := c.streamInfo(ctx, LogStream)
	if err != nil {
		return nil, fmt.Errorf("import the log: %w", err)
	}
	if s := stateOf(info); s.First != p.First || s.Last != p.Last || s.Messages != p.Last+1-p.First {
		return nil, fmt.Errorf("import the log: the server has %d messages from %d to %d, not all from %d to %d", s.Messages, s.First, s.Last, p.First, p.Last)
	}
	if err := c.putBackOrigin(ctx, info, p.Origin); err != nil {
		return nil, fmt.Errorf("import the log: %w", err)
	}
	return c.logOf(ctx, info)
}

// putBackOrigin records the origin of a log that was put back from there. What is recorded
// is of a log that is gone.
func (c *Conn) putBackOrigin(ctx context.Context, info *jetstream.StreamInfo, document []byte) error {
	if document == nil {
		return nil
	}
	o, err := ParseOrigin(logIDOf(info.Created.UTC()), document)
	if err != nil {
		return err
	}
	was, err := FindOrigin(ctx, c)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	o.Revision = was.Revision
	_, err = RecordOrigin(ctx, c, o)
	return err
}

// makeRoom refuses servers that have a log, and removes what an import left that was
// cut off.
func (c *Conn) makeRoom(ctx context.Context) error {
	info, err := c.streamInfo(ctx, LogStream)
	if errors.Is(err, ErrNotFound) {
		return c.unwitnessed(ctx)
	}
	if err != nil {
		return err
	}
	if finished(info) == nil {
		return &ExistsError{fmt.Sprintf("there is a log already, made %s: a log is imported where there is none", info.Created.UTC().Format(time.RFC3339))}
	}
	for _, name := range []string{ChainStream, LogStream} {
		if err := c.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("remove %s, which an import left: %w", name, err)
		}
	}
	return nil
}

// unwitnessed refuses servers whose witness knows a log.
func (c *Conn) unwitnessed(ctx context.Context) error {
	var gone *DamagedError
	err := MissingLog(ctx, c)
	if errors.As(err, &gone) {
		return &ExistsError{gone.Detail + "; a log is imported where there was none: use other servers, or restore that one as docs/recovery.md says"}
	}
	return err
}

// beginRestore asks for a stream to be restored, and returns where its parts go.
func (c *Conn) beginRestore(ctx context.Context, cfg jetstream.StreamConfig, p PutBack) (to string, err error) {
	body, err := json.Marshal(map[string]any{"config": cfg, "state": stateDocument(p)})
	if err != nil {
		return "", err
	}
	var answer struct {
		Subject string `json:"deliver_subject"`
	}
	err = c.restoreStep(ctx, "$JS.API.STREAM.RESTORE."+LogStream, body, &answer)
	if err == nil && answer.Subject == "" {
		err = errors.New("the server does not say where the messages go")
	}
	return answer.Subject, err
}

func stateDocument(p PutBack) map[string]any {
	return map[string]any{"messages": p.Last + 1 - p.First, "first_seq": p.First, "last_seq": p.Last}
}

// restoreStep asks one thing of a restore. An empty answer means to go on.
func (c *Conn) restoreStep(ctx context.Context, subject string, body []byte, answer any) error {
	m, err := c.ask(ctx, &nats.Msg{Subject: subject, Data: body}, commitTimeout)
	if err != nil || len(m.Data) == 0 {
		return err
	}
	var failed struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if failed.Error != nil {
		return fmt.Errorf("the server: %s", failed.Error.Description)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(m.Data, answer)
}

// restoreChunk is what goes to the server at once.
const restoreChunk = 256 << 10

// sendMessages sends the messages in the form of the server's own backups, and
// waits until all are stored.
func (c *Conn) sendMessages(ctx context.Context, to string, p PutBack, messages iter.Seq2[Message, error]) error {
	chunks := &chunkWriter{send: func(b []byte) error { return c.restoreStep(ctx, to, b, nil) }}
	compressed := s2.NewWriter(chunks, s2.WriterConcurrency(1))
	w := archive.NewWriter(compressed)
	err := writeMessages(w, p, messages)
	err = errors.Join(err, w.Close(), compressed.Close())
	if err == nil {
		err = chunks.flush()
	}
	if err != nil {
		// Without the mark of its end the server refuses what it has. Its answer adds nothing.
		_ = c.restoreStep(ctx, to, nil, nil)
		return err
	}
	return c.restoreStep(ctx, to, nil, nil)
}

func writeMessages(w *archive.Writer, p PutBack, messages iter.Seq2[Message, error]) error {
	state, err := json.Marshal(stateDocument(p))
	if err != nil {
		return err
	}
	if err := writeEntry(w, archive.Header{Name: "state.json", Timestamp: time.Now().UnixNano()}, nil, state); err != nil {
		return err
	}
	for m, err := range messages {
		if err != nil {
			return err
		}
		if err := writeEntry(w, archive.Header{Name: m.Subject, Timestamp: m.Time.UnixNano(), Sequence: m.Seq}, headerBlock(m.Header), m.Body); err != nil {
			return err
		}
	}
	return writeEntry(w, archive.Header{}, nil, nil) // the mark of the end
}

func writeEntry(w *archive.Writer, h archive.Header, header, body []byte) error {
	h.HeaderSize, h.PayloadSize = int64(len(header)), int64(len(body))
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	for _, part := range [][]byte{header, body} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// headerBlock is a message's headers on the wire, by name; nil: it has none.
func headerBlock(all map[string][]string) []byte {
	if len(all) == 0 {
		return nil
	}
	b := []byte("NATS/1.0\r\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			b = append(b, name+": "+strings.NewReplacer("\r", " ", "\n", " ").Replace(value)+"\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// chunkWriter gathers what is to be sent at once.
type chunkWriter struct {
	send func([]byte) error
	held []byte
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), restoreChunk-len(w.held))
		w.held, rest = append(w.held, rest[:n]...), rest[n:]
		if len(w.held) == restoreChunk {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

func (w *chunkWriter) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	err := w.send(w.held)
	w.held = w.held[:0]
	return err
}

var _ io.Writer = (*chunkWriter)(nil)

// Finish has a log that PutBackLog made be opened by everybody.
func (l *Log) Finish(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err == nil {
		err = l.same(info)
	}
	if err != nil {
		return fmt.Errorf("finish the import of the log: %w", err)
	}
	cfg := info.Config
	delete(cfg.Metadata, metaUnfinished)
	ctx, cancel := l.c.during(ctx, requestTimeout)
	defer cancel()
	if _, err := l.c.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("finish the import of the log: %w", err)
	}
	return nil
}
