package artifact

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
)

// run seals messages, up to MaxRun at a time. It holds what can be used
// again for the next ones.
type run struct {
	signer *Signer
	template
	hash    hash.Hash
	scratch []byte
	leaves  [MaxRun]digest
	paths   [MaxRun]inclusion
}

func newRun(s *Signer) *run { return &run{signer: s, hash: sha256.New()} }

// seal appends the messages to dst. There are 1 to MaxRun, all checked.
func (r *run) seal(dst []byte, list []Message, emit func(i int, wire []byte)) []byte {
	sign := r.signPlain
	if len(list) > 1 {
		sign = r.signAll(list)
	}
	for i := range list {
		start := len(dst)
		dst = r.appendWire(dst, &list[i])
		dst = sign(dst, &list[i], i)
		dst = append(dst, r.end...)
		emit(i, dst[start:len(dst):len(dst)])
	}
	return dst
}

// signPlain appends the signature over one message.
func (r *run) signPlain(b []byte, a *Message, _ int) []byte {
	r.scratch = r.appendSigned(r.scratch[:0], a)
	b = r.appendKey(b, AlgEd25519)
	return appendValue(b, r.signer.Sign(r.scratch))
}

// signAll signs the root over the list, and returns what appends the signature
// of each with its proof.
func (r *run) signAll(list []Message) func(b []byte, a *Message, i int) []byte {
	n := len(list)
	for i := range list {
		r.leaf(&list[i], &r.leaves[i])
		r.paths[i].n = 0
	}
	root := grow(r.leaves[:n], r.paths[:n])
	value := r.signer.Sign(batchText(n, root))
	return func(b []byte, _ *Message, i int) []byte {
		b = r.appendKey(b, AlgEd25519Merkle)
		b = strconv.AppendInt(append(b, `,"leaf":`...), int64(i), 10)
		b = base64.StdEncoding.AppendEncode(append(b, `,"path":"`...), r.paths[i].bytes())
		b = strconv.AppendInt(append(b, `","size":`...), int64(n), 10)
		return appendValue(b, value)
	}
}

// leaf hashes 0x00 and the signed form. The rules, which are most of it, are
// hashed where they are.
func (r *run) leaf(a *Message, to *digest) {
	r.fill(a)
	r.scratch = append(r.scratch[:0], leafPrefix)
	r.scratch = r.appendHead(r.scratch, a.Node, &r.signed)
	r.hash.Reset()
	r.hash.Write(r.scratch)
	r.hash.Write(a.Rules.canonical)
	r.scratch = append(append(append(r.scratch[:0], a.Rules.after...), afterRules...), r.end...)
	r.hash.Write(r.scratch)
	r.hash.Sum(to[:0])
}

func (r *run) appendKey(b []byte, alg string) []byte {
	b = append(append(b, `,"signature":{"alg":"`...), alg...)
	b = append(append(b, `","key_id":"`...), r.signer.keyID...)
	return append(b, '"')
}

func appendValue(b, raw []byte) []byte {
	b = base64.StdEncoding.AppendEncode(append(b, `,"value":"`...), raw)
	return append(b, `"}`...)
}
