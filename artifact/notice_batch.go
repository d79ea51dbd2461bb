package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// NoticeSignature is the signature of a notice: a text in the dialects of the
// field, whose Alg is empty here; an object in dialect batch.
type NoticeSignature struct{ Signature }

// MarshalJSON prints the signature as it travels.
func (s NoticeSignature) MarshalJSON() ([]byte, error) {
	if s.Alg == "" {
		return json.Marshal(s.Value)
	}
	return s.Signature.MarshalJSON()
}

// UnmarshalJSON reads either form.
func (s *NoticeSignature) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte{'{'}) {
		s.Signature = Signature{}
		return json.Unmarshal(b, &s.Value)
	}
	var w wireSignature
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	var err error
	if s.Signature, err = w.signature(); err == nil && s.Alg == "" {
		err = fmt.Errorf("a signature needs an algorithm")
	}
	return err
}

// verifyNotice checks the signature of a notice, given what is signed of it.
func (t *TrustSet) verifyNotice(n Notice, now time.Time, signed []byte) error {
	s := n.Signature.Signature
	switch {
	case s.Alg == "":
		return t.verify(PlanePolicy, n.KeyID, now, signed, s.Value)
	case s.KeyID != n.KeyID:
		return fmt.Errorf("%w: it names key %.40q, and the notice %.40q", ErrBadSignature, s.KeyID, n.KeyID)
	case s.Alg == AlgEd25519:
		return t.verify(PlanePolicy, n.KeyID, now, signed, s.Value)
	case s.Alg == AlgEd25519Merkle:
		return t.verifyRun(PlanePolicy, now, signed, s)
	}
	return fmt.Errorf("%w: algorithm %.40q; want %s or %s", ErrBadSignature, s.Alg, AlgEd25519, AlgEd25519Merkle)
}

// NoticeRun gathers up to MaxRun notices of dialect batch for one signature. One
// goroutine uses it; it can be used again after Sign.
type NoticeRun struct {
	signer *Signer
	n      int
	leaves [MaxRun]digest
	last   []byte // the prefix of a leaf and what is signed of the last notice
}

// NewNoticeRun makes an empty run that s will sign.
func NewNoticeRun(s *Signer) *NoticeRun { return &NoticeRun{signer: s} }

// Len is how many notices are in the run.
func (r *NoticeRun) Len() int { return r.n }

// Add has a notice signed with the run, which must have room, and returns its
// place. What AppendNotice asks of a notice holds here.
func (r *NoticeRun) Add(n Notice) (place int) {
	r.last = r.signer.appendSigned(append(r.last[:0], leafPrefix), n)
	r.leaves[r.n] = sha256.Sum256(r.last)
	r.n++
	return r.n - 1
}

// Sign signs what was added, of which there is something, and empties the run.
func (r *NoticeRun) Sign() *SignedRun {
	s := &SignedRun{signer: r.signer, size: r.n}
	text := r.last[1:]
	if r.n > 1 {
		s.paths = make([]inclusion, r.n)
		text = batchText(r.n, grow(r.leaves[:r.n], s.paths))
	}
	base64.StdEncoding.Encode(s.value[:], r.signer.Sign(text))
	r.n = 0
	return s
}

// SignedRun is the signature over a run, with the proof of each of its notices.
// It never changes.
type SignedRun struct {
	signer *Signer
	size   int
	value  [88]byte // base64
	paths  []inclusion
}

// AppendNotice appends the wire form of the notice at a place of the run: the
// one that was added there.
func (s *SignedRun) AppendNotice(b []byte, place int, n Notice) []byte {
	b = s.signer.appendSigned(b, n)
	b = append(b[:len(b)-1], `,"signature":{"alg":"`...)
	if s.size == 1 {
		b = append(append(b, AlgEd25519+`","key_id":"`...), s.signer.keyID...)
	} else {
		b = append(append(b, AlgEd25519Merkle+`","key_id":"`...), s.signer.keyID...)
		b = strconv.AppendInt(append(b, `","leaf":`...), int64(place), 10)
		b = base64.StdEncoding.AppendEncode(append(b, `,"path":"`...), s.paths[place].bytes())
		b = strconv.AppendInt(append(b, `","size":`...), int64(s.size), 10)
		b = append(append(b, `,"value":"`...), s.value[:]...)
		return append(b, `"}}`...)
	}
	b = append(append(b, `","value":"`...), s.value[:]...)
	return append(b, `"}}`...)
}
