package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/nats-io/nats.go"
)

// keys are the plane's public keys by id.
type keys map[string]ed25519.PublicKey

var errUnknownKey = errors.New("the key is unknown")

// parseKeys reads the document that the plane shows at /v1/keys.
func parseKeys(doc []byte) (keys, error) {
	var list struct {
		Items []struct {
			KeyID     string            `json:"key_id"`
			Plane     string            `json:"plane"`
			PublicKey ed25519.PublicKey `json:"public_key"`
		} `json:"items"`
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		return nil, err
	}
	k := keys{}
	for _, key := range list.Items {
		if key.Plane == "policy" && len(key.PublicKey) == ed25519.PublicKeySize {
			k[key.KeyID] = key.PublicKey
		}
	}
	return k, nil
}

// event is a message whose signature was verified.
type event struct {
	id     uint64
	base   uint64 // that the id counts from
	name   string // the last part of its subject
	log    string
	policy string // of a row; else it is about an artifact or a message to pull
	row    row
	resync bool // the node is to take everything anew
}

// envelope is what is signed; json holds the rest.
type envelope struct {
	Plane     string          `json:"plane"`
	Kind      string          `json:"kind"`
	Name      string          `json:"name"`
	Node      string          `json:"node"`
	Version   uint64          `json:"version"`
	Payload   json.RawMessage `json:"payload"`
	Signature signature       `json:"signature"`
}

type signature struct {
	Alg   string `json:"alg"`
	KeyID string `json:"key_id"`
	Value []byte `json:"value"`
	Leaf  int    `json:"leaf"`
	Size  int    `json:"size"`
	Path  []byte `json:"path"`
}

// open verifies a message for a node.
func (k keys) open(m *nats.Msg, node string) (e event, err error) {
	var env envelope
	if err := json.Unmarshal(m.Data, &env); err != nil {
		return e, err
	}
	signed, err := signedBytes(m.Data)
	if err != nil {
		return e, err
	}
	if err := k.verify(signed, env.Signature); err != nil {
		return e, err
	}
	if env.Plane != "policy" || env.Node != node {
		return e, fmt.Errorf("it is for node %s of plane %s", env.Node, env.Plane)
	}
	// The id is not signed, but the log sequence is: 42 bits hold base + sequence.
	if e.id, err = strconv.ParseUint(m.Header.Get("Edict-Event-Id"), 10, 64); err != nil || e.id>>22 < env.Version {
		return e, fmt.Errorf("its id is %q", m.Header.Get("Edict-Event-Id"))
	}
	e.base, e.name, e.log = e.id>>22-env.Version, env.Name, m.Header.Get("Edict-Log")
	var payload struct {
		Policy      string          `json:"policy_id"`
		Fingerprint string          `json:"fingerprint"`
		Rules       json.RawMessage `json:"rules"`
	}
	switch env.Kind {
	case "policy":
		err = json.Unmarshal(env.Payload, &payload)
		e.policy, e.row = payload.Policy, row{e.id, payload.Fingerprint, payload.Rules}
		if sum := sha256.Sum256(payload.Rules); err == nil && (e.policy != env.Name || base64.StdEncoding.EncodeToString(sum[:]) != payload.Fingerprint) {
			err = errors.New("its rules are not those of its name and fingerprint")
		}
	case "state": // the reason is its name
		e.name, e.resync = "state", env.Name == "resync"
	default:
		e.name = "artifact." + env.Kind + "." + env.Name
	}
	return e, err
}

// signedBytes are the envelope without its signature, in the form of RFC 8785.
func signedBytes(body []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	delete(members, "signature")
	open, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(open)
}

// verify checks a signature: over the bytes themselves, or over the root of a
// Merkle tree that they are a leaf of (RFC 9162).
func (k keys) verify(signed []byte, s signature) error {
	key, ok := k[s.KeyID]
	if !ok {
		return fmt.Errorf("%w: %s", errUnknownKey, s.KeyID)
	}
	if s.Alg == "ed25519-merkle" {
		root, ok := climb(sha256.Sum256(append([]byte{0}, signed...)), s.Leaf, s.Size, s.Path)
		if !ok || s.Size < 2 || s.Size > 64 {
			return errors.New("its proof leads to no root")
		}
		signed = binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(s.Size))
		signed = append(signed, root[:]...)
	} else if s.Alg != "ed25519" {
		return fmt.Errorf("algorithm %q is not known", s.Alg)
	}
	if !ed25519.Verify(key, signed, s.Value) {
		return errors.New("bad signature")
	}
	return nil
}

// climb is the root of a tree of size leaves that has a hash at a place, given
// its siblings from the leaf up. The left part of a tree has as many leaves as
// the largest power of two below its size.
func climb(hash [32]byte, leaf, size int, path []byte) (root [32]byte, ok bool) {
	if size == 1 {
		return hash, len(path) == 0
	}
	if len(path) < 32 || leaf < 0 || leaf >= size {
		return root, false
	}
	path, sibling := path[:len(path)-32], path[len(path)-32:] // of the topmost part
	left := 1
	for left*2 < size {
		left *= 2
	}
	if leaf < left {
		hash, ok = climb(hash, leaf, left, path)
		return sha256.Sum256(slices.Concat([]byte{1}, hash[:], sibling)), ok
	}
	hash, ok = climb(hash, leaf-left, size-left, path)
	return sha256.Sum256(slices.Concat([]byte{1}, sibling, hash[:])), ok
}

// rotate takes in the key that a notice announces, signed by the one before, which
// should be dropped when the transition ends. It is a notice as over SSE: signed
// are its six members, in this order.
func (k keys) rotate(notice []byte, node string) error {
	type members struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Scope    string          `json:"scope"`
		KeyID    string          `json:"key_id"`
		IssuedAt time.Time       `json:"issued_at"`
		Payload  json.RawMessage `json:"payload"`
	}
	var n struct {
		members
		Signature []byte `json:"signature"`
	}
	if err := json.Unmarshal(notice, &n); err != nil {
		return err
	}
	signed, err := json.Marshal(n.members)
	if err != nil {
		return err
	}
	var p struct {
		KeyID     string            `json:"key_id"`
		PublicKey ed25519.PublicKey `json:"public_key"`
		Expires   time.Time         `json:"transition_expires"`
	}
	if err := json.Unmarshal(n.Payload, &p); err != nil {
		return err
	}
	if _, known := k[p.KeyID]; known {
		return nil // it was announced before
	}
	if err := k.verify(signed, signature{Alg: "ed25519", KeyID: n.KeyID, Value: n.Signature}); err != nil {
		return err
	}
	if n.Type != "signing_key_rotated" || n.Scope != "node:"+node || time.Since(n.IssuedAt).Abs() > 5*time.Minute ||
		!time.Now().Before(p.Expires) || len(p.PublicKey) != ed25519.PublicKeySize {
		return errors.New("it is not for this node, or not of now")
	}
	k[p.KeyID] = p.PublicKey
	return nil
}
