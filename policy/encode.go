package policy

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Append appends the event's JSON to b: compact, fields in the order of
// docs/events.md, times RFC 3339 in UTC. Decode reads the same event back.
func Append(b []byte, e Event) []byte {
	b = appendID(append(b, `{"id":`...), e.EventID())
	b = append(append(b, `,"type":"`...), e.EventType()...)
	b = append(b, '"')
	if e.Scope() != uuid.Nil {
		b = appendID(append(b, `,"project_id":`...), e.Scope())
	}
	return append(e.appendMembers(b), '}')
}

// AppendRevision appends {"id","parent_id","selector","tier"?,"priority"?,
// "default_deny"?,"mode"?,"rules","created_at","created_by","correlation_id"}; an absent
// parent or correlation id is null.
func AppendRevision(b []byte, r Revision) []byte {
	b = appendID(append(b, `{"id":`...), r.ID)
	b = append(b, `,"parent_id":`...)
	if r.Parent == uuid.Nil {
		b = append(b, "null"...)
	} else {
		b = appendID(b, r.Parent)
	}
	b = AppendSelector(append(b, `,"selector":`...), r.Selector)
	b = appendOrder(b, r.Order)
	b = AppendRules(append(b, `,"rules":`...), r.Rules)
	b = r.CreatedAt.UTC().AppendFormat(append(b, `,"created_at":"`...), time.RFC3339Nano)
	b = appendText(append(b, `","created_by":`...), r.CreatedBy)
	b = append(b, `,"correlation_id":`...)
	if r.CorrelationID == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, r.CorrelationID)
	}
	return append(b, '}')
}

// AppendDraft appends what DecodeDraft reads, without a display name.
func AppendDraft(b []byte, d Draft) []byte {
	b = appendText(append(b, `{"slug":`...), d.Slug)
	b = AppendSelector(append(b, `,"selector":`...), d.Selector)
	b = appendOrder(b, d.Order)
	return append(AppendRules(append(b, `,"rules":`...), d.Rules), '}')
}

// AppendSelector appends {"source":"…","destination":"…"}.
func AppendSelector(b []byte, s Selector) []byte {
	// The selector's alphabet needs no escaping.
	b = s.Source.AppendText(append(b, `{"source":"`...))
	b = s.Destination.AppendText(append(b, `","destination":"`...))
	return append(b, `"}`...)
}

// appendOrder appends what an order sets, each behind a comma:
// "tier","priority","default_deny","mode".
func appendOrder(b []byte, o Order) []byte {
	if o.Tier != "" {
		b = append(append(append(b, `,"tier":"`...), o.Tier...), '"')
	}
	if o.Priority.Set {
		b = strconv.AppendUint(append(b, `,"priority":`...), uint64(o.Priority.N), 10)
	}
	if o.NoDefaultDeny {
		b = append(b, `,"default_deny":false`...)
	}
	if o.Audit {
		b = append(append(append(b, `,"mode":"`...), Audit...), '"')
	}
	return b
}

// AppendRules appends a rule list in its own order, each rule
// {"action","protocol","source_cidr"?,"destination_cidr"?,"ports"?}, and what it
// has of "source_selector","destination_selector","proxy_port",
// "listener_priority","auth","direction".
func AppendRules(b []byte, rules []Rule) []byte {
	b = append(b, '[')
	for i, r := range rules {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `{"action":"`...), r.Action...)
		b = append(append(append(b, `","protocol":"`...), r.Protocol...), '"')
		if r.Source.IsValid() {
			b = append(r.Source.AppendTo(append(b, `,"source_cidr":"`...)), '"')
		}
		if r.Destination.IsValid() {
			b = append(r.Destination.AppendTo(append(b, `,"destination_cidr":"`...)), '"')
		}
		if r.Ports != (Ports{}) {
			b = r.Ports.AppendTo(append(b, `,"ports":`...))
		}
		b = append(r.AppendOrdered(b), '}')
	}
	return append(b, ']')
}

// AppendOrdered appends what the rule has of the fields of ordered policy, in
// their order, each behind a comma. No field's alphabet needs escaping.
func (r Rule) AppendOrdered(b []byte) []byte {
	if r.SourceSelector != "" {
		b = append(append(append(b, `,"source_selector":"`...), r.SourceSelector...), '"')
	}
	if r.DestinationSelector != "" {
		b = append(append(append(b, `,"destination_selector":"`...), r.DestinationSelector...), '"')
	}
	if r.ProxyPort != 0 {
		b = strconv.AppendUint(append(b, `,"proxy_port":`...), uint64(r.ProxyPort), 10)
	}
	if r.ListenerPriority != 0 {
		b = strconv.AppendUint(append(b, `,"listener_priority":`...), uint64(r.ListenerPriority), 10)
	}
	if r.Auth != "" {
		b = append(append(append(b, `,"auth":"`...), r.Auth...), '"')
	}
	if r.Direction != "" {
		b = append(append(append(b, `,"direction":"`...), r.Direction...), '"')
	}
	return b
}

// AppendTo appends {"from":n,"to":n}.
func (p Ports) AppendTo(b []byte) []byte {
	b = strconv.AppendUint(append(b, `{"from":`...), uint64(p.From), 10)
	b = strconv.AppendUint(append(b, `,"to":`...), uint64(p.To), 10)
	return append(b, '}')
}

// AppendLabels appends an object, keys ascending.
func AppendLabels(b []byte, labels Labels) []byte {
	b = append(b, '{')
	for i, l := range labels {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, l.Key)
		b = appendText(append(b, ':'), l.Value)
	}
	return append(b, '}')
}

// AppendAddresses appends an array of address texts.
func AppendAddresses(b []byte, addrs Addresses) []byte {
	b = append(b, '[')
	for i, a := range addrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(a.AppendTo(append(b, '"')), '"')
	}
	return append(b, ']')
}

// appendAuthor appends who wrote an event, behind a comma; "" is nobody.
func appendAuthor(b []byte, by string) []byte {
	if by == "" {
		return b
	}
	return appendText(append(b, `,"created_by":`...), by)
}

func appendID(b []byte, id uuid.UUID) []byte { return append(appendUUID(append(b, '"'), id), '"') }

func appendUUID(b []byte, id uuid.UUID) []byte {
	text, _ := id.MarshalText() // cannot fail
	return append(b, text...)
}

// appendText quotes s. Text that is not UTF-8 cannot come from Decode; its bad
// bytes become U+FFFD.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
