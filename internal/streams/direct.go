package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers the server adds to what it reads for a direct get.
const (
	directStream     = "Nats-Stream"
	directSubject    = "Nats-Subject"
	directSequence   = "Nats-Sequence"
	directTime       = "Nats-Time-Stamp"
	directPending    = "Nats-Num-Pending"
	directLast       = "Nats-Last-Sequence"
	directUpTo       = "Nats-UpTo-Sequence"
	statusHeader     = "Status"
	statusText       = "Description"
	directGetSubject = "$JS.API.DIRECT.GET."
)

// directGet is the body of a direct get (ADR-31).
type directGet struct {
	Seq       uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"` // from Seq on
	MultiLast []string `json:"multi_last,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
}

func (c *Conn) directRequest(stream string, body directGet) *nats.Msg {
	data, _ := json.Marshal(body) // numbers and strings: cannot fail
	return &nats.Msg{Subject: directGetSubject + stream, Data: data}
}

func (c *Conn) getSeq(ctx context.Context, stream string, seq uint64) (Message, error) {
	if seq == 0 {
		return Message{}, fmt.Errorf("%s sequence 0: %w", stream, ErrNotFound)
	}
	return c.get(ctx, directGet{Seq: seq}, fmt.Sprintf("%s sequence %d", stream, seq), stream)
}

// get asks any replica for one message, which errors call what.
func (c *Conn) get(ctx context.Context, which directGet, what, stream string) (Message, error) {
	m, err := c.ask(ctx, c.directRequest(stream, which), requestTimeout)
	if err != nil {
		return Message{}, fmt.Errorf("read %s: %w", what, err)
	}
	if added(m, directSubject) != "" {
		return directMessage(m) // which may have a status of its author's
	}
	status := m.Header.Get(statusHeader)
	if status == "404" {
		return Message{}, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return Message{}, fmt.Errorf("read %s: server: %s %s", what, status, m.Header.Get(statusText))
}

// added is the value of a header that the server put behind those of the author, who
// may have said the same name.
func added(m *nats.Msg, name string) string {
	if all := m.Header.Values(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// directMessage makes a Message of a direct get's answer and takes off what the
// server added.
func directMessage(m *nats.Msg) (Message, error) {
	seq, err1 := strconv.ParseUint(added(m, directSequence), 10, 64)
	at, err2 := time.Parse(time.RFC3339Nano, added(m, directTime))
	subject := added(m, directSubject)
	if err := errors.Join(err1, err2); err != nil || subject == "" {
		return Message{}, fmt.Errorf("direct get: the answer lacks its subject, sequence or time: %w", err)
	}
	for _, k := range []string{directStream, directSubject, directSequence, directTime, directPending, directLast} {
		m.Header.Del(k)
	}
	msg := Message{Seq: seq, Subject: subject, Body: m.Data, Time: at.UTC()}
	if len(m.Header) > 0 {
		msg.Header = m.Header
	}
	return msg, nil
}
