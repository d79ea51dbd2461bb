package policy

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Policy is the aggregate an author edits: a slug, a name, and one head
// revision. Its history of revisions is append-only.
type Policy struct {
	ID          uuid.UUID
	Project     uuid.UUID
	Slug        string // unique among the project's living policies
	DisplayName string
	Head        Revision
	CreatedAt   time.Time // log timestamp of the first revision
	UpdatedAt   time.Time // log timestamp of the head revision
}

// Revision is one published state of a policy. Parent is uuid.Nil in the
// first one. CorrelationID is empty when the author gave none.
type Revision struct {
	ID            uuid.UUID
	Parent        uuid.UUID
	Selector      Selector
	Order         Order
	Rules         []Rule // author's order
	CreatedAt     time.Time
	CreatedBy     string
	CorrelationID string
}

// Limits of a policy's texts.
const (
	MaxSlug        = 64  // bytes
	MaxDisplayName = 128 // characters
)

func readSlug(r *reader) string {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	if !validSlug(b) {
		r.note("", CodeInvalidSlug,
			"a slug is 1 to 64 of a-z, 0-9 and '-', the first a letter")
		return ""
	}
	return string(b)
}

func validSlug(s []byte) bool {
	if len(s) == 0 || len(s) > MaxSlug || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range s {
		if !isLower(c) && c != '-' {
			return false
		}
	}
	return true
}

func readDisplayName(r *reader) string {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	if n := utf8.RuneCount(b); n > MaxDisplayName {
		r.note("", CodeInvalidDisplayName, fmt.Sprintf("%d characters; at most %d", n, MaxDisplayName))
		return ""
	}
	s := string(b)
	for i, c := range s {
		if unicode.IsControl(c) {
			r.note("", CodeInvalidDisplayName, fmt.Sprintf("control character %U at byte %d; remove it", c, i))
			return ""
		}
	}
	return s
}

// Fields of a revision, by bit.
const (
	revisionID = 1 << iota
	revisionParent
	revisionSelector
	revisionRules
	revisionCreatedAt
	revisionCreatedBy
	revisionCorrelation
)

var revisionFields = []string{"id", "parent_id", "selector", "rules", "created_at", "created_by", "correlation_id"}

func readRevision(r *reader) (rev Revision) {
	var seen uint
	ok := r.object("a revision", func(name []byte) bool {
		switch string(name) {
		case "id":
			seen |= revisionID
			rev.ID = r.uuid()
		case "parent_id":
			rev.Parent = r.uuidOrNull()
		case "selector":
			seen |= revisionSelector
			rev.Selector = readSelector(r)
		case "tier":
			rev.Order.Tier = readTier(r)
		case "priority":
			rev.Order.Priority = readPriority(r)
		case "default_deny":
			rev.Order.NoDefaultDeny = !readDefaultDeny(r)
		case "mode":
			rev.Order.Audit = readAudit(r)
		case "rules":
			seen |= revisionRules
			rev.Rules = readRules(r)
		case "created_at":
			seen |= revisionCreatedAt
			rev.CreatedAt = r.time()
		case "created_by":
			seen |= revisionCreatedBy
			rev.CreatedBy = r.short()
		case "correlation_id":
			if !r.null() {
				rev.CorrelationID = r.short()
			}
		default:
			return false
		}
		return true
	})
	if ok {
		const need = revisionID | revisionSelector | revisionRules | revisionCreatedAt | revisionCreatedBy
		r.require(need, seen, revisionFields)
	}
	return rev
}
