package policy

import "strconv"

// Quota bounds what one project may have, and add. 0: as much as it likes.
type Quota struct {
	Policies        uint64 // that live
	Nodes           uint64
	LabelSets       uint64 // distinct ones of its nodes
	BytesPerDay     uint64 // of the log in 24 hours, whatever became of the events
	EventsPerSecond uint64 // that are applied; as many may come at once
	EventsPerDay    uint64 // that are applied in 24 hours
}

// MaxQuota bounds each number of a quota.
const MaxQuota = 1 << 50

// CodeInvalidQuota is of a number of a quota that is none, or too large.
const CodeInvalidQuota = "invalid_quota"

// QuotaField is one number of a quota, by its name in JSON.
type QuotaField struct {
	Name string
	Of   func(*Quota) *uint64
}

// QuotaFields are all of them, in the order of their JSON.
var QuotaFields = []QuotaField{
	{"policies", func(q *Quota) *uint64 { return &q.Policies }},
	{"nodes", func(q *Quota) *uint64 { return &q.Nodes }},
	{"label_sets", func(q *Quota) *uint64 { return &q.LabelSets }},
	{"bytes_per_day", func(q *Quota) *uint64 { return &q.BytesPerDay }},
	{"events_per_second", func(q *Quota) *uint64 { return &q.EventsPerSecond }},
	{"events_per_day", func(q *Quota) *uint64 { return &q.EventsPerDay }},
}

// AppendQuota appends a quota's JSON: the numbers that bound something.
func AppendQuota(b []byte, q Quota) []byte {
	b = append(b, '{')
	comma := ""
	for _, f := range QuotaFields {
		if n := *f.Of(&q); n > 0 {
			b = append(append(append(b, comma...), '"'), f.Name...)
			b = strconv.AppendUint(append(b, `":`...), n, 10)
			comma = ","
		}
	}
	return append(b, '}')
}

// DecodeQuota reads a quota's JSON. The error is Violations, every fault at once.
func DecodeQuota(body []byte) (q Quota, err error) {
	faults := read(body, func(r *reader) { q = readQuota(r) })
	return q, faults.orNil()
}

func readQuota(r *reader) (q Quota) {
	r.object("a quota", func(name []byte) bool {
		for _, f := range QuotaFields {
			if f.Name == string(name) {
				*f.Of(&q), _ = r.number(0, MaxQuota, CodeInvalidQuota, "a number from 0 to 2^50")
				return true
			}
		}
		return false
	})
	return q
}
