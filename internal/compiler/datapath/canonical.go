package datapath

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/edictdev/edict/internal/compiler"
)

// AppendJSON appends an entry as compact JSON: direction, identity, protocol,
// port and prefix, verdict, precedence, then proxy_port and auth where there are
// some, and rule, which is null where the default decided.
func (e Entry) AppendJSON(b []byte) []byte {
	b = append(append(b, `{"direction":"`...), e.Direction.String()...)
	b = strconv.AppendUint(append(b, `","identity":`...), uint64(e.Identity), 10)
	b = append(append(b, `,"protocol":"`...), e.Protocol.String()...)
	b = strconv.AppendUint(append(b, `","port":`...), uint64(e.Port), 10)
	b = strconv.AppendUint(append(b, `,"prefix":`...), uint64(e.Bits), 10)
	b = append(append(b, `,"verdict":"`...), e.Verdict.String()...)
	b = strconv.AppendUint(append(b, `","precedence":`...), uint64(e.Precedence), 10)
	if e.ProxyPort != 0 {
		b = strconv.AppendUint(append(b, `,"proxy_port":`...), uint64(e.ProxyPort), 10)
	}
	if e.Auth != AuthUnset {
		b = append(append(append(b, `,"auth":"`...), e.Auth.String()...), '"')
	}
	if e.Default() {
		return append(b, `,"rule":null}`...)
	}
	return append(e.Rule.AppendJSON(append(b, `,"rule":`...)), '}')
}

// AppendJSON appends a reference as compact JSON.
func (r Ref) AppendJSON(b []byte) []byte {
	b = appendText(append(b, `{"policy":`...), r.Policy)
	b = appendText(append(b, `,"revision":`...), r.Revision)
	return append(strconv.AppendInt(append(b, `,"index":`...), int64(r.Index), 10), '}')
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	plain := !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
	if plain {
		return append(append(append(b, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // a string always has a form
	return append(b, quoted...)
}

// AppendJSON appends the table's canonical bytes: compact JSON of the names of
// its identities, in which number i stands at i-1, and of its entries. Equal
// tables have equal bytes, in whatever order their input came.
func (t *Table) AppendJSON(b []byte) []byte {
	b = append(b, `{"identities":[`...)
	for i, id := range t.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, id.Name)
	}
	b = append(b, `],"entries":[`...)
	for i, e := range t.Entries() {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.AppendJSON(b)
	}
	return append(b, `]}`...)
}

// Fingerprint is the SHA-256 of the canonical bytes.
func (t *Table) Fingerprint() compiler.Fingerprint {
	return compiler.FingerprintOf(t.AppendJSON(nil))
}

// Sum is the SHA-256 of an identity's entries in some canonical form, without
// its number: those of equal sums are equal.
func (t *Table) Sum(id ID) [sha256.Size]byte {
	entries := t.anyone
	if id != AnyIdentity {
		entries = t.ids[id-1].entries
	}
	var b []byte
	for n, l := range t.lists {
		for i := range entries[n] {
			b = append(l.entry(AnyIdentity, &entries[n][i]).AppendJSON(b), '\n')
		}
	}
	return sha256.Sum256(b)
}
