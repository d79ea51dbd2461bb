package relay

import (
	"slices"
	"strconv"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// maxDataLine is the maximum number of bytes of JSON on one data: line. Agents read
// lines of less than 64 KiB, including the field name (plexsphere 3.3).
const maxDataLine = 60 << 10

// appendFrame appends an SSE frame with the data that add appends. Long data is
// split into lines at JSON token boundaries, where the line feed that joins them
// again is white space.
func appendFrame(b []byte, id policy.EventID, event string, add func([]byte) []byte) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, uint64(id), 10)
	b = append(b, "\nevent: "...)
	b = append(b, event...)
	b = append(b, "\ndata: "...)
	from := len(b)
	b = add(b)
	if len(b)-from > maxDataLine {
		b = appendLines(b[:from], slices.Clone(b[from:]))
	}
	return append(b, "\n\n"...)
}

// appendTrace appends a comment that names the trace of the frame after it, if it has
// one. Whoever does not look for it passes over it, as over every comment.
func appendTrace(b []byte, traceparent string) []byte {
	if traceparent == "" {
		return b
	}
	b = append(b, wire.CommentTrace...)
	return append(append(b, traceparent...), '\n')
}

// appendLines appends data as lines of at most maxDataLine bytes.
func appendLines(b, data []byte) []byte {
	for {
		n := cutJSON(data, maxDataLine)
		b = append(b, data[:n]...)
		if data = data[n:]; len(data) == 0 {
			return b
		}
		b = append(b, "\ndata: "...)
	}
}

// cutJSON returns where to cut a compact JSON text so that the first piece ends at
// a token boundary and has at most limit bytes. A longer token stays whole.
func cutJSON(text []byte, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	cut, inString := 0, false
	for i := 0; i < len(text); i++ {
		if i >= limit && cut > 0 {
			return cut
		}
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':' || c == '{' || c == '['):
			cut = i + 1
		}
	}
	return len(text)
}
