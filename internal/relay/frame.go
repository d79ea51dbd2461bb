package relay

import (
	"slices"
	"strconv"

	"github.com/edictdev/edict/policy"
)

// dataRoom is the most bytes of JSON on one data: line. Agents read lines of
// less than 64 KiB, the field name included (plexsphere 3.3).
const dataRoom = 60 << 10

// appendFrame appends an SSE frame with the data that add appends. Data is
// split over lines at JSON token boundaries, where the line feed that joins
// them again is white space.
func appendFrame(b []byte, id policy.EventID, event string, add func([]byte) []byte) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, uint64(id), 10)
	b = append(b, "\nevent: "...)
	b = append(b, event...)
	b = append(b, "\ndata: "...)
	from := len(b)
	b = add(b)
	if len(b)-from > dataRoom {
		b = appendLines(b[:from], slices.Clone(b[from:]))
	}
	return append(b, "\n\n"...)
}

// appendLines appends data as lines of dataRoom at most.
func appendLines(b, data []byte) []byte {
	for {
		n := cutJSON(data, dataRoom)
		b = append(b, data[:n]...)
		if data = data[n:]; len(data) == 0 {
			return b
		}
		b = append(b, "\ndata: "...)
	}
}

// cutJSON is where to cut a compact JSON text so that the first piece ends at
// a token boundary within room bytes. A single token above room stays whole.
func cutJSON(text []byte, room int) int {
	if len(text) <= room {
		return len(text)
	}
	cut, inString := 0, false
	for i := 0; i < len(text); i++ {
		if i >= room && cut > 0 {
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
