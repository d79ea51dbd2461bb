package policy

import (
	"fmt"
	"math"
	"strconv"

	"github.com/google/uuid"
)

// AuditCount counts the packets that a policy in audit mode would have denied, in
// each direction. Policy is Nil for those that no rule would have allowed.
type AuditCount struct {
	Policy          uuid.UUID
	Egress, Ingress uint64
}

// MaxAudited is how many counts a report may have.
const MaxAudited = 16

func appendAudited(b []byte, counts []AuditCount) []byte {
	for i, c := range counts {
		b = append(b, "[,"[min(i, 1)], '{')
		if c.Policy != uuid.Nil {
			b = append(appendID(append(b, `"policy_id":`...), c.Policy), ',')
		}
		b = strconv.AppendUint(append(b, `"egress":`...), c.Egress, 10)
		b = append(strconv.AppendUint(append(b, `,"ingress":`...), c.Ingress, 10), '}')
	}
	return append(b, ']')
}

func readAudited(r *reader) (counts []AuditCount) {
	r.array("an array of counts", func(i int) {
		if i >= MaxAudited {
			if r.skip(); i == MaxAudited {
				r.note("", CodeTooManyCounts, fmt.Sprintf("at most %d counts", MaxAudited))
			}
			return
		}
		var c AuditCount
		r.object("a count", func(name []byte) bool {
			switch string(name) {
			case "policy_id":
				c.Policy = r.uuid()
			case "egress":
				c.Egress = readCount(r)
			case "ingress":
				c.Ingress = readCount(r)
			default:
				return false
			}
			return true
		})
		counts = append(counts, c)
	})
	return counts
}

func readCount(r *reader) uint64 {
	n, _ := r.number(0, math.MaxUint64, CodeInvalidCount, "a count of packets")
	return n
}
