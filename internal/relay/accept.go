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

// NotAcceptableError: the reader asked for a form of events that there is not;
// answer 406.
type NotAcceptableError struct{ Detail string }

func (e *NotAcceptableError) Error() string { return e.Detail }

// form is how a reader wants its events.
type form struct {
	dialect policy.Dialect
	tables  bool // it enforces tables, and is to hear of every change of its own
}

// formOf reads what a request accepts: the form that it weighs most, of those
// that there are. A reader that says nothing of event streams gets the form that
// the node's principal registered with.
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

// readForm reads the parameters of an event stream that is accepted, and what
// was found wrong with them already. Parameters of other names do not matter.
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

// splitList cuts a list at the commas that no quotes surround.
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
