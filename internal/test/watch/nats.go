package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/policy"
)

// Answer is what a native client is told of what it missed.
type Answer struct {
	Frames []Frame
	UpTo   policy.EventID // complete up to here
	Pull   bool           // and it must pull
}

// Why there is no answer.
var (
	// ErrNoAnswer: nobody answered, or not to the end, or who did is behind; ask
	// again.
	ErrNoAnswer = errors.New("no answer")
	// ErrUnknownKey: a message is signed by a key that nobody has named yet.
	ErrUnknownKey = errors.New("it is signed by another key")
	// ErrUnknownNode: there is no such node.
	ErrUnknownNode = errors.New("unknown node")
)

// Replay asks over NATS for everything a node missed above an id. What came
// before an error is in the answer. A message at fault is a *FrameError.
func Replay(nc *nats.Conn, node string, after policy.EventID, patience time.Duration, keys Keys) (a Answer, err error) {
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return a, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest("edict.replay.node."+node, inbox, fmt.Appendf(nil, `{"after":%q}`, after)); err != nil {
		return a, err
	}
	for {
		m, err := sub.NextMsg(patience)
		switch {
		case err != nil || m.Header.Get("Status") != "":
			return a, ErrNoAnswer
		case m.Header.Get("Edict-Error") == "node_not_found":
			return a, ErrUnknownNode
		case m.Header.Get("Edict-Error") != "":
			return a, fmt.Errorf("%w: %s", ErrNoAnswer, m.Header.Get("Edict-Error"))
		case m.Header.Get("Edict-Event") != "":
			if _, err := readNotice(m.Data, keys); !errors.Is(err, errRotated) {
				return a, &FrameError{"of a key", err}
			}
			continue
		}
		if upTo := m.Header.Get("Edict-Up-To"); upTo != "" {
			a.UpTo, err = policy.ParseEventID(upTo)
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
// without its signature, keys sorted, no white space. Its headers must agree with
// each other, and with what is signed.
func ReadMessage(m *nats.Msg, keys Keys) (f Frame, err error) {
	id := m.Header.Get("Edict-Id")
	if f, err = readMessage(m, keys); err != nil {
		return f, &FrameError{id, err}
	}
	return f, nil
}

func readMessage(m *nats.Msg, keys Keys) (f Frame, err error) {
	if f.ID, err = policy.ParseEventID(m.Header.Get("Edict-Event-Id")); err != nil {
		return f, err
	}
	if f.Prev, err = policy.ParseEventID(m.Header.Get("Edict-Prev")); err != nil {
		return f, err
	}
	var sealed struct {
		Kind      string          `json:"kind"`
		Name      string          `json:"name"`
		Node      string          `json:"node"`
		Plane     string          `json:"plane"`
		Version   uint64          `json:"version"`
		Payload   json.RawMessage `json:"payload"`
		Signature proof           `json:"signature"`
	}
	if err := json.Unmarshal(m.Data, &sealed); err != nil {
		return f, err
	}
	signed, err := signedBytes(m.Data)
	if err != nil {
		return f, err
	}
	if keys[sealed.Signature.KeyID] == nil {
		return f, ErrUnknownKey
	}
	if !sealed.Signature.holds(signed, keys) || sealed.Plane != "policy" {
		return f, errors.New("the envelope does not verify")
	}
	f.Node, f.Version, f.KeyID = sealed.Node, sealed.Version, sealed.Signature.KeyID
	name := sealed.Name
	switch sealed.Kind {
	case "policy":
		f.Type = "policy_updated"
	case "state":
		f.Type, name = "node_state_updated", "state"
	default:
		f.Type, name = "artifact_updated", "artifact."+sealed.Kind+"."+sealed.Name
	}
	if err := f.readPayload(sealed.Payload); err != nil {
		return f, err
	}
	return f, f.agrees(m, name)
}

// agrees holds the headers and the subject against what is signed.
func (f *Frame) agrees(m *nats.Msg, name string) error {
	want := f.Node + "." + f.ID.String()
	for header, want := range map[string]string{
		"Edict-Id": want, "Nats-Msg-Id": want, "ce-id": want, "Edict-Type": f.Type, "ce-type": f.Type, "ce-specversion": "1.0",
		"Edict-Log-Seq": fmt.Sprint(f.Version),
	} {
		if got := m.Header.Get(header); got != want {
			return fmt.Errorf("header %s is %q, want %q", header, got, want)
		}
	}
	if live := "edict.node." + f.Node + "." + name; strings.HasPrefix(m.Subject, "edict.node.") && m.Subject != live {
		return fmt.Errorf("it is on %s, want %s", m.Subject, live)
	}
	if f.Prev >= f.ID {
		return fmt.Errorf("the id before %s is %s", f.ID, f.Prev)
	}
	return nil
}

// signedBytes are the envelope without its signature, keys sorted.
func signedBytes(body []byte) ([]byte, error) {
	open := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&open); err != nil {
		return nil, err
	}
	delete(open, "signature")
	var signed bytes.Buffer
	e := json.NewEncoder(&signed)
	e.SetEscapeHTML(false)
	if err := e.Encode(open); err != nil {
		return nil, err
	}
	return bytes.TrimRight(signed.Bytes(), "\n"), nil
}
