package relay

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/edictdev/edict/policy"
)

const mediaEvents = "text/event-stream"

// NotAcceptableError means that the reader asked for an unknown form of events;
// answer 406.
type NotAcceptableError struct{ Detail string }

func (e *NotAcceptableError) Error() string { return e.Detail }

// form is the form in which a reader wants its events.
type form struct {
	dialect policy.Dialect
	tables  bool // it enforces tables: it is notified of every change of its own table
}

// formOf reads what a request accepts: of the known forms, the one with the highest
// weight. A reader that does not name a form gets the one that the node's principal
// registered with.
func (r *Relay) formOf(req *http.Request, node policy.NodeID) (form, error) {
	var best form
	var refused error
	weight := 0.0
	for _, header := range req.Header.Values("Accept") {
		for _, text := range splitList(header) {
			media, params, err := mime.ParseMediaType(text)
			if media != mediaEvents {
				continue
			}
			f, q, err := readForm(params, err)
			switch {
			case err != nil:
				refused = &NotAcceptableError{fmt.Sprintf("Accept: %s: %v", strings.TrimSpace(text), err)}
			case q > weight:
				best, weight = f, q
			}
		}
	}
	if weight == 0 && refused != nil {
		return form{}, refused
	}
	if best.dialect == "" {
		best.dialect = r.opt.Dialect(node)
	}
	return best, nil
}

// readForm reads the parameters of an accepted event stream. err is what
// mime.ParseMediaType said about them. Other parameters are ignored.
func readForm(params map[string]string, err error) (f form, q float64, _ error) {
	if err != nil {
		return f, 0, err
	}
	q = 1
	if text, ok := params["q"]; ok {
		if q, err = strconv.ParseFloat(text, 64); err != nil || q < 0 || q > 1 {
			return f, 0, fmt.Errorf("q is %q; want a number from 0 to 1", text)
		}
	}
	if text, ok := params["dialect"]; ok {
		switch f.dialect = policy.Dialect(text); f.dialect {
		case policy.DialectBatch, policy.DialectCurrent, policy.DialectLegacy:
		default:
			return f, 0, fmt.Errorf("there is no dialect %q; want %s, %s or %s", text, policy.DialectBatch, policy.DialectCurrent, policy.DialectLegacy)
		}
	}
	if text, ok := params["tables"]; ok {
		if f.tables = text == "true"; !f.tables && text != "false" {
			return f, 0, fmt.Errorf("tables is %q; want true or false", text)
		}
	}
	return f, q, nil
}

// splitList splits a list at the commas outside of quotes.
func splitList(list string) (parts []string) {
	from, quoted := 0, false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			parts, from = append(parts, list[from:i]), i+1
		}
	}
	return append(parts, list[from:])
}
