// Package watch is the node's side of both transports as tests need it: it
// reads what a plane sends, verifies it with code of its own, and hands it on
// as frames for package check.
package watch

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/policy"
)

// Keys are a plane's public keys by id. Whoever follows with them adds those
// that one of them announces.
type Keys map[string][]byte

// rotate takes in the key that a notice announces. The plane announces none once the
// transition is over; that a busy machine reads it later is no fault of the plane's.
func (k Keys) rotate(n *notice) error {
	var p struct {
		KeyID     string    `json:"key_id"`
		PublicKey []byte    `json:"public_key"`
		Previous  string    `json:"previous_key_id"`
		Expires   time.Time `json:"transition_expires"`
	}
	if err := json.Unmarshal(n.Payload, &p); err != nil {
		return err
	}
	if p.Previous != n.KeyID || len(p.PublicKey) != ed25519.PublicKeySize || p.KeyID == n.KeyID || !n.IssuedAt.Before(p.Expires) {
		return fmt.Errorf("%s announces %s in place of %s until %s, at %s", n.KeyID, p.KeyID, p.Previous, p.Expires, n.IssuedAt)
	}
	k[p.KeyID] = p.PublicKey
	return nil
}

// errRotated is no fault: the notice was about a key.
var errRotated = errors.New("a key was announced")

// verifies is false for a key that is not there, too.
// What verified once does so for everybody who is sent it.
func (k Keys) verifies(id string, message, signature []byte) bool {
	if len(k[id]) != ed25519.PublicKeySize {
		return false
	}
	whole := sha256.Sum256(slices.Concat(k[id], signature, message))
	if _, known := verified.Load(whole); known {
		return true
	}
	ok := len(signature) == ed25519.SignatureSize && ed25519.Verify(k[id], message, signature)
	if ok {
		verified.Store(whole, nil)
	}
	return ok
}

// verified are hashes of a key, a signature and a message, of fixed lengths but for the last.
var verified sync.Map

// FrameError is a message that cannot be read, does not verify, or is not what
// its id says.
type FrameError struct {
	ID    string
	Cause error
}

// Error names the message.
func (e *FrameError) Error() string { return "frame " + e.ID + ": " + e.Cause.Error() }

// Unwrap is the cause.
func (e *FrameError) Unwrap() error { return e.Cause }

// Stream opens one SSE connection to the node's events at url and calls f with
// each frame until f returns false, the stream ends or ctx does. An empty
// lastEventID names nothing to resume from. Its line limit is the real
// agent's, and so is the form that it gets. A frame at fault is a *FrameError.
func Stream(ctx context.Context, client *http.Client, url, lastEventID string, keys Keys, f func(Frame) bool) error {
	return StreamIn(ctx, "text/event-stream", client, url, lastEventID, keys, f)
}

// Batch asks for notices in runs, and for every change of the node's table.
const Batch = "text/event-stream;dialect=batch;tables=true"

// StreamIn is Stream in a form of the reader's choice, which Accept tells.
func StreamIn(ctx context.Context, accept string, client *http.Client, url, lastEventID string, keys Keys, f func(Frame) bool) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	var id string
	var data []byte
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			data = append(append(data, value...), '\n')
		case lines.Text() == "" && len(data) > 0:
			m, err := readNotice(data, keys)
			if errors.Is(err, errRotated) {
				data = nil
				continue
			}
			if err == nil {
				err = m.numbered(id)
			}
			if err != nil {
				return &FrameError{id, err}
			}
			data = nil
			if !f(m) {
				return nil
			}
		}
	}
	return lines.Err()
}

// notice is the event envelope of SSE. Its signed bytes are the fields but the
// signature, in this order, as encoding/json prints them.
type notice struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Scope     string          `json:"scope"`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Payload   json.RawMessage `json:"payload"`
	Signature json.RawMessage `json:"signature,omitempty"`
}

// proof is the notice's signature: a text, or an object in the form "batch".
func (n notice) proof() (p proof, err error) {
	if len(n.Signature) > 0 && n.Signature[0] == '{' {
		err = json.Unmarshal(n.Signature, &p)
		return p, err
	}
	p.Alg, p.KeyID = "ed25519", n.KeyID
	err = json.Unmarshal(n.Signature, &p.Value)
	return p, err
}

// agentsWindow is how old a signature may be for agents of the field. A worker
// that was stopped between signing and writing is within it.
const agentsWindow = 5 * time.Minute

// readNotice verifies a notice. Its id is that of its frame; numbered reads it.
func readNotice(data []byte, keys Keys) (m Frame, err error) {
	var n notice
	if err := json.Unmarshal(data, &n); err != nil {
		return m, err
	}
	signature, err := n.proof()
	if err != nil {
		return m, err
	}
	n.Signature = nil
	signed, err := json.Marshal(n)
	if err != nil {
		return m, err
	}
	if signature.KeyID != n.KeyID || !signature.holds(signed, keys) {
		return m, fmt.Errorf("signature of %s does not verify", n.ID)
	}
	if age := time.Since(n.IssuedAt); age > agentsWindow || age < -agentsWindow {
		return m, fmt.Errorf("%s was signed %v ago", n.ID, age)
	}
	node, ok := strings.CutPrefix(n.Scope, "node:")
	if !ok {
		return m, fmt.Errorf("%s is for %s", n.ID, n.Scope)
	}
	if n.Type == "signing_key_rotated" {
		if err := keys.rotate(&n); err != nil {
			return m, err
		}
		return m, errRotated
	}
	m.Node, m.Type, m.KeyID = node, n.Type, n.KeyID
	m.name = n.ID
	return m, m.readPayload(n.Payload)
}

// numbered takes the id of the frame around a notice, which is not signed: the
// notice's own says the same. A message to pull whose id the node gave has another
// name than what it was told under that.
func (f *Frame) numbered(id string) (err error) {
	want := f.Node + "." + id
	if f.Reason == "resync" {
		want = f.Node + ".resync." + id
	}
	if f.name != want {
		return fmt.Errorf("its notice is %s, not %s", f.name, want)
	}
	f.ID, err = policy.ParseEventID(id)
	return err
}
