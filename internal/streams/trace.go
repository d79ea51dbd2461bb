package streams

import "encoding/hex"

// Trace names the request that caused an event, in whoever's trace that is: a
// W3C trace id, the id of the span that published, and flags. It travels in
// headers alone. The zero value is no trace.
type Trace [16 + 8 + 1]byte

// traceLen is the length of a traceparent of version 00.
const traceLen = len("00-") + 32 + len("-") + 16 + len("-") + 2

// ParseTrace reads a traceparent header. What is not one, by the rules of W3C
// Trace Context, is no trace: a message with a header that nobody can read is
// as good as any other. Of a later version it keeps what version 00 has.
func ParseTrace(s string) (t Trace, ok bool) {
	if len(s) < traceLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	version, ok := lowerHex(s[:2])
	if !ok || version[0] == 0xff || len(s) > traceLen && (version[0] == 0 || s[traceLen] != '-') {
		return Trace{}, false
	}
	id, ok1 := lowerHex(s[3:35])
	span, ok2 := lowerHex(s[36:52])
	flags, ok3 := lowerHex(s[53:traceLen])
	if !ok1 || !ok2 || !ok3 || zero(id) || zero(span) {
		return Trace{}, false
	}
	const known = 0x03 // sampled, random
	copy(t[:], id)
	copy(t[16:], span)
	t[24] = flags[0] & known
	return t, true
}

func lowerHex(s string) ([]byte, bool) {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'F' {
			return nil, false
		}
	}
	b, err := hex.DecodeString(s)
	return b, err == nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// IsZero reports whether there is no trace.
func (t Trace) IsZero() bool { return t == Trace{} }

// ID is the trace id, 32 hex digits; empty for no trace.
func (t Trace) ID() string {
	if t.IsZero() {
		return ""
	}
	return hex.EncodeToString(t[:16])
}

// String is the traceparent header, of version 00; empty for no trace.
func (t Trace) String() string {
	if t.IsZero() {
		return ""
	}
	b := make([]byte, 0, traceLen)
	b = hex.AppendEncode(append(b, "00-"...), t[:16])
	b = hex.AppendEncode(append(b, '-'), t[16:24])
	b = hex.AppendEncode(append(b, '-'), t[24:])
	return string(b)
}
