package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
		return refused(failed.Error.Description)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(m.Data, answer)
}

// noRoom is how a server says that it has no room. Of a restore it does so in words alone, because
// the code of its answer is that of the step.
var noRoom = []string{"no space left", "quota exceeded", "insufficient storage", "insufficient resources", "resource limits exceeded"}

// tooLarge is how a server says that one message is larger than its max_payload.
const tooLarge = "exceeds maximum payload size"

// refused is what a server says of a step that it does not take: ErrStorage where it has no room,
// ErrMessageTooLarge where it takes no message so large.
func refused(said string) error {
	if strings.Contains(said, tooLarge) {
		return &tooLargeError{said}
	}
	for _, words := range noRoom {
		if strings.Contains(said, words) {
			return &noRoomError{said}
		}
	}
	if strings.Contains(said, nameInUse) {
		return fmt.Errorf("%w: the server: %s", errNameInUse, said)
	}
	return fmt.Errorf("the server: %s", said)
}

// nameInUse is how a server says that it has the stream, or has begun to restore it.
const nameInUse = "stream name already in use"

var errNameInUse = errors.New("an import is under way there, or was cut off just now")

// noRoomError means that the server has no room for what is restored. It is ErrStorage, too.
type noRoomError struct{ said string }

// Error says so, and what to do.
func (e *noRoomError) Error() string {
	return fmt.Sprintf("the server: %s; make room there, or raise its limit, and run the same command again, which begins anew", e.said)
}

// Unwrap is ErrStorage.
func (*noRoomError) Unwrap() error { return ErrStorage }

// tooLargeError means that the server takes no message as large as one that is restored. It is
// ErrMessageTooLarge, too.
type tooLargeError struct{ said string }

// Error says so, and what to do.
func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the server: %s; raise max_payload of all servers to what it was where the log was written (an embedded server has 8MB), and run the same command again, which begins anew", e.said)
}

// Unwrap is ErrMessageTooLarge.
func (*tooLargeError) Unwrap() error { return ErrMessageTooLarge }

// restoreChunk is what goes to the server at once.
const restoreChunk = 256 << 10

// stirs is how often a restore hears of us while there is nothing to send: a server gives up
// one that says nothing for five seconds, and an archive may come from far away.
const stirs = time.Second

// sendMessages sends the messages in the form of the server's own backups, and
// waits until all are stored.
func (c *Conn) sendMessages(ctx context.Context, to string, p PutBack, messages iter.Seq2[Message, error]) error {
	r := newRestore(func(b []byte) error { return c.restoreStep(ctx, to, b, nil) })
	if err := cmp.Or(r.write(p, messages), r.close()); err != nil {
		// Without the mark of its end the server refuses what it has. Its answer adds nothing.
		_ = c.restoreStep(ctx, to, nil, nil)
		return err
	}
	return c.restoreStep(ctx, to, nil, nil)
}

// restore is messages on their way to a server: an archive of them, compressed, in parts.
type restore struct {
	mu         sync.Mutex // of what follows: messages are written and the server hears of us
	parts      chunkWriter
	compressed *s2.Writer
	archive    *archive.Writer
}

func newRestore(send func([]byte) error) *restore {
	r := &restore{parts: chunkWriter{send: send}}
	r.compressed = s2.NewWriter(&r.parts, s2.WriterConcurrency(1))
	r.archive = archive.NewWriter(r.compressed)
	return r
}

// stir sends a block that readers skip, wherever nothing was sent for an interval, until
// stop is called. What fails fails again with the next message, or at the end.
func (r *restore) stir(each time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(each)
		defer tick.Stop()
		before := 0
		for {
			select {
			case <-tick.C:
				before = r.stirAfter(before)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// skipped is the type of a block of the s2 format that its readers skip.
const skipped = 0x80

// stirAfter sends such a block unless more than a number of parts were sent, and returns
// how many were.
func (r *restore) stirAfter(parts int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts.sent == parts && r.compressed.AddSkippableBlock(skipped, []byte{0}) == nil && r.compressed.Flush() == nil {
		_ = r.parts.flush() // it is kept
	}
	return r.parts.sent
}

func (r *restore) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.archive.Close(), r.compressed.Close(), r.parts.flush()) // the first is why the others fail
}

func (r *restore) write(p PutBack, messages iter.Seq2[Message, error]) error {
	defer r.stir(stirs)()
	state, err := json.Marshal(stateDocument(p))
	if err != nil {
		return err
	}
	if err := r.entry(archive.Header{Name: "state.json", Timestamp: time.Now().UnixNano()}, nil, state); err != nil {
		return err
	}
	for m, err := range messages {
		if err != nil {
			return err
		}
		if err := r.entry(archive.Header{Name: m.Subject, Timestamp: m.Time.UnixNano(), Sequence: m.Seq}, headerBlock(m.Header), m.Body); err != nil {
			return err
		}
	}
	return r.entry(archive.Header{}, nil, nil) // the mark of the end
}

func (r *restore) entry(h archive.Header, header, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.HeaderSize, h.PayloadSize = int64(len(header)), int64(len(body))
	if err := r.archive.WriteHeader(&h); err != nil {
		return err
	}
	for _, part := range [][]byte{header, body} {
		if _, err := r.archive.Write(part); err != nil {
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
	sent int   // how many parts
	err  error // the first: what it was for is lost, so nothing follows
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0 && w.err == nil; {
		n := min(len(rest), restoreChunk-len(w.held))
		w.held, rest = append(w.held, rest[:n]...), rest[n:]
		if len(w.held) == restoreChunk {
			_ = w.flush() // it is kept
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(b), nil
}

func (w *chunkWriter) flush() error {
	if w.err != nil || len(w.held) == 0 {
		return w.err
	}
	w.err = w.send(w.held)
	w.held = w.held[:0]
	w.sent++
	return w.err
}
