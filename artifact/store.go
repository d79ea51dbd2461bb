package artifact

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	strict "github.com/go-json-experiment/json"
)

// Store is what a node accepted of plane "mgmt": whom it trusts, and the highest
// version per identity. The first keys come from the pin; later ones only from an
// artifact that a trusted key has signed (reference 5A). A Store never changes:
// accepting makes another one, which must be kept (Keep) before what was
// accepted is used.
type Store struct {
	rete, node string
	pin        string // fingerprint of the pin it began with
	signers    []PinSigner
	marks      HighWater
	set        string // fingerprint of the documents accepted last; empty: none were
}

// NewStore is what a node trusts before it accepted anything.
func NewStore(pin Pin) *Store {
	return &Store{rete: pin.Rete, node: pin.Node, pin: pin.fingerprint(), signers: pin.Signers}
}

// Signers are trusted now.
func (s *Store) Signers() []PinSigner { return slices.Clone(s.signers) }

// SetFingerprint is that of the documents accepted last (Fingerprint); empty: none
// were.
func (s *Store) SetFingerprint() string { return s.set }

// Version is the highest accepted; 0: none is.
func (s *Store) Version() (highest uint64) {
	for _, m := range s.marks.All() {
		highest = max(highest, m.Version)
	}
	return highest
}

// Accept checks a set that was offered, by the rules of reference 5A: Format.Check
// with the trusted signers, then no version below the highest accepted, and at
// an equal one only equal bytes but for the signature. All of it is accepted, or
// nothing is. The error holds every reason to refuse, each a PartError.
//
// The documents that were accepted last are accepted again even if their signer is
// not trusted any more: they may themselves have retired it.
func (s *Store) Accept(f Format, docs []Document) (*Store, error) {
	fingerprint := Fingerprint(docs)
	if fingerprint == s.set {
		return s, nil
	}
	trust, err := Pin{Signers: s.signers}.Trust()
	if err != nil {
		return nil, err
	}
	set, faults := f.Check(trust, s.node, docs)
	next := &Store{rete: s.rete, node: s.node, pin: s.pin, signers: set.Signers, set: fingerprint}
	next.marks.marks = maps.Clone(s.marks.marks)
	for _, e := range set.Envelopes {
		if _, err := next.marks.Accept(e); err != nil {
			faults = append(faults, &PartError{Part{e.Kind, e.Name}, err})
		}
	}
	if len(faults) > 0 {
		all := make([]error, len(faults))
		for i, f := range faults {
			all[i] = f
		}
		return nil, errors.Join(all...)
	}
	return next, nil
}

// Fingerprint is of documents as they stand, in whatever order: "sha256:" and 64
// hex digits.
func Fingerprint(docs []Document) string {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b Document) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), bytes.Compare(a.Text, b.Text))
	})
	h := sha256.New()
	for _, d := range docs {
		fmt.Fprintf(h, "%q %q %d\n", d.Kind, d.Name, len(d.Text))
		h.Write(d.Text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// storeFile is a Store as a file.
type storeFile struct {
	Rete     string      `json:"rete"`
	Node     string      `json:"node"`
	Pin      string      `json:"pin"`
	Signers  []PinSigner `json:"authorized_mgmt_signers"`
	Set      string      `json:"set"`
	Accepted []storeMark `json:"accepted"`
}

type storeMark struct {
	Plane   string `json:"plane"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	Digest  []byte `json:"digest"` // of the signed bytes
}

// JSON is the store as a file; equal stores have equal bytes.
func (s *Store) JSON() ([]byte, error) {
	w := storeFile{s.rete, s.node, s.pin, s.signers, s.set, []storeMark{}}
	for id, m := range s.marks.All() {
		w.Accepted = append(w.Accepted, storeMark{id.Plane, id.Kind, id.Name, m.Version, m.Digest[:]})
	}
	slices.SortFunc(w.Accepted, func(a, b storeMark) int {
		return cmp.Or(cmp.Compare(a.Plane, b.Plane), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	text, err := json.MarshalIndent(w, "", "  ")
	return append(text, '\n'), err
}

// ParseStore reads what JSON wrote, strictly.
func ParseStore(text []byte) (*Store, error) {
	var w storeFile
	if err := strict.Unmarshal(text, &w, strict.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w state of what was accepted: %w", ErrMalformed, err)
	}
	if _, err := (Pin{Signers: w.Signers}).Trust(); err != nil || len(w.Signers) == 0 || w.Node == "" || w.Pin == "" {
		return nil, fmt.Errorf("%w state of what was accepted: it lacks a node, a pin or a good signer", ErrMalformed)
	}
	s := &Store{rete: w.Rete, node: w.Node, pin: w.Pin, signers: w.Signers, set: w.Set}
	for _, m := range w.Accepted {
		if len(m.Digest) != sha256.Size {
			return nil, fmt.Errorf("%w state of what was accepted: the digest of %s %s has %d bytes", ErrMalformed, m.Kind, m.Name, len(m.Digest))
		}
		s.marks.Restore(Identity{w.Node, m.Plane, m.Kind, m.Name}, Mark{m.Version, [sha256.Size]byte(m.Digest)})
	}
	return s, nil
}
