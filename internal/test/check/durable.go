package check

import (
	"encoding/json"
	"fmt"
)

// Lost holds what producers were told against the log: at the sequence that an
// acknowledgement names stands the event that it is for.
func (r *Run) Lost() (broken []Violation) {
	at := make(map[uint64]Event, len(r.Log))
	for _, e := range r.Log {
		at[e.Seq] = e
	}
	for _, a := range r.Acks {
		e, there := at[a.Seq]
		var id struct{ ID string }
		_ = json.Unmarshal(e.Body, &id) // what does not read is another event
		switch {
		case !there:
			broken = append(broken, Violation{Durable, fmt.Sprintf("%s on %s was acknowledged at %d, where the log has nothing", a.Event, a.Subject, a.Seq)})
		case id.ID != a.Event || e.Subject != "" && e.Subject != a.Subject:
			broken = append(broken, Violation{Durable, fmt.Sprintf("%s on %s was acknowledged at %d, where %s on %s stands", a.Event, a.Subject, a.Seq, id.ID, e.Subject)})
		}
	}
	return broken
}
