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

// storedMessage is the answer of $JS.API.STREAM.MSG.GET, which the leader gives.
type storedMessage struct {
	Error   *apiError `json:"error"`
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

const (
	messageGetSubject = "$JS.API.STREAM.MSG.GET."
	codeNoMessage     = 10037
)

// ofLeader asks the stream's leader for one message; ErrNotFound when that has none. A
// replica that was away may lack for minutes what is asked for, and where its server stands
// nearest no other is asked.
func ofLeader(ctx context.Context, c *Conn, which directGet, stream string) (m Message, err error) {
	data, _ := json.Marshal(which) // numbers and strings: cannot fail
	resp, err := c.askAgain(ctx, &nats.Msg{Subject: messageGetSubject + stream, Data: data})
	if err != nil {
		return m, err
	}
	var got storedMessage
	if err := json.Unmarshal(resp.Data, &got); err != nil {
		return m, fmt.Errorf("unreadable answer: %w", err)
	}
	if got.Error != nil {
		if got.Error.ErrCode == codeNoMessage {
			return m, ErrNotFound
		}
		return m, got.Error.sorted()
	}
	m = Message{Seq: got.Message.Seq, Subject: got.Message.Subject, Body: got.Message.Data, Time: got.Message.Time.UTC()}
	if len(got.Message.Header) > 0 {
		header, err := nats.DecodeHeadersMsg(got.Message.Header)
		if err != nil {
			return m, fmt.Errorf("unreadable header: %w", err)
		}
		m.Header = header
	}
	return m, nil
}

// sure is get, where a replica may lag: what that lacks the leader is asked for.
func sure(ctx context.Context, c *Conn, which directGet, what, stream string, replicas int) (Message, error) {
	m, err := c.get(ctx, which, what, stream)
	if replicas == 1 || !errors.Is(err, ErrNotFound) {
		return m, err
	}
	if m, err = ofLeader(ctx, c, which, stream); errors.Is(err, ErrNotFound) {
		return m, fmt.Errorf("%s: %w", what, err)
	}
	if err != nil {
		return m, fmt.Errorf("read %s of the leader: %w", what, err)
	}
	return m, nil
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
