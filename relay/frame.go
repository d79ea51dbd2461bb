package relay

import (
	"encoding/json"
	"strconv"
	"time"
)

// dataRoom is the most bytes of JSON on one data: line. Agents read lines of
// less than 64 KiB, the field name included (plexsphere 3.3).
const dataRoom = 60 << 10

// appendFrame appends an SSE frame. Its data is split over lines at JSON token
// boundaries, where the line feed that joins them again is white space.
func appendFrame(b []byte, id uint64, event string, data []byte) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, "\nevent: "...)
	b = append(b, event...)
	b = append(b, '\n')
	for len(data) > 0 {
		n := cutJSON(data, dataRoom)
		b = append(b, "data: "...)
		b = append(b, data[:n]...)
		b = append(b, '\n')
		data = data[n:]
	}
	return append(b, '\n')
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

// stored is what a frame needs of a stored envelope.
type stored struct {
	Plane       string          `json:"plane"`
	Kind        string          `json:"kind"`
	GeneratedAt time.Time       `json:"generated_at"`
	Payload     json.RawMessage `json:"payload"`
}
