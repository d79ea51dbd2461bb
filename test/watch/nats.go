package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/test/check"
)

// Answer is what a native client is told of what it missed.
type Answer struct {
	Frames []check.Frame
	UpTo   uint64 // complete up to here
	Pull   bool   // and it must pull
}

// ErrNoAnswer: nobody answered, or not to the end; ask again.
var ErrNoAnswer = errors.New("no answer")

// Replay asks over NATS for everything a node missed after a sequence. What
// came before an error is in the answer. A message at fault is a *FrameError.
func Replay(nc *nats.Conn, node string, after uint64, patience time.Duration, keys Keys) (a Answer, err error) {
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return a, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest("edict.replay.node."+node, inbox, fmt.Appendf(nil, `{"after":%d}`, after)); err != nil {
		return a, err
	}
	for {
		m, err := sub.NextMsg(patience)
		if err != nil || m.Header.Get("Status") != "" || m.Header.Get("Edict-Error") != "" {
			return a, ErrNoAnswer
		}
		if m.Header.Get("Edict-Event") != "" {
			if _, err := readNotice(m.Data, keys); !errors.Is(err, errRotated) {
				return a, &FrameError{"of a key", err}
			}
			continue
		}
		if upTo := m.Header.Get("Edict-Up-To"); upTo != "" {
			a.UpTo, err = strconv.ParseUint(upTo, 10, 64)
			a.Pull = m.Header.Get("Edict-Resync") == "true"
			return a, err
		}
		f, err := ReadMessage(m, keys)
		if err != nil {
			return a, err
		}
		a.Frames = append(a.Frames, f)
	}
}

// ReadMessage verifies a native message: the signed bytes are the envelope
// without its signature, keys sorted, no white space.
func ReadMessage(m *nats.Msg, keys Keys) (check.Frame, error) {
	f, err := ReadStored(m.Header.Get("Edict-Id"), m.Data, keys)
	if err != nil {
		return f, err
	}
	f.Seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return f, err
}

// ReadStored verifies the body of a message of the node stream with this
// Edict-Id.
func ReadStored(id string, body []byte, keys Keys) (check.Frame, error) {
	var sealed struct {
		Payload   json.RawMessage `json:"payload"`
		Signature proof           `json:"signature"`
	}
	if err := json.Unmarshal(body, &sealed); err != nil {
		return check.Frame{}, &FrameError{id, err}
	}
	open := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&open); err != nil {
		return check.Frame{}, &FrameError{id, err}
	}
	delete(open, "signature")
	var signed bytes.Buffer
	e := json.NewEncoder(&signed)
	e.SetEscapeHTML(false)
	if err := e.Encode(open); err != nil {
		return check.Frame{}, &FrameError{id, err}
	}
	if !sealed.Signature.holds(bytes.TrimRight(signed.Bytes(), "\n"), keys) {
		return check.Frame{}, &FrameError{id, errors.New("the envelope does not verify")}
	}
	f, err := readPayload(sealed.Payload, id)
	f.KeyID = sealed.Signature.KeyID
	if err != nil {
		return f, &FrameError{id, err}
	}
	return f, nil
}
