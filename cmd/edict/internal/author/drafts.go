// Package author brings the policies of a project to what an author's
// documents say: it checks every document before it sends any, and creates or
// revises by slug.
package author

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/policy"
)

// Draft is one policy as its author wants it.
type Draft struct {
	resource.Draft
	At document.Document // where it is written
}

// Drafts checks documents by the rules of the domain. Every fault of every
// document is told, with its place.
func Drafts(docs []document.Document) (drafts []Draft, faults []document.Fault) {
	first := map[string]document.Document{}
	for _, doc := range docs {
		_, err := policy.DecodeDraft(doc.JSON)
		if err != nil {
			faults = append(faults, violations(doc, err)...)
			continue
		}
		d := Draft{At: doc}
		if err := json.Unmarshal(doc.JSON, &d.Draft); err != nil {
			faults = append(faults, document.Fault{File: doc.File, Line: doc.Line, Message: err.Error()})
			continue
		}
		if before, twice := first[d.Slug]; twice {
			line, column := doc.At("/slug")
			faults = append(faults, document.Fault{
				File: doc.File, Line: line, Column: column,
				Message: fmt.Sprintf("policy %q is written twice, first at %s:%d; keep one", d.Slug, before.File, before.Line),
			})
			continue
		}
		first[d.Slug] = doc
		drafts = append(drafts, d)
	}
	return drafts, faults
}

// violations are faults of a document with the places of their pointers.
func violations(doc document.Document, err error) (faults []document.Fault) {
	var list policy.Violations
	if !errors.As(err, &list) {
		return []document.Fault{{File: doc.File, Line: doc.Line, Message: err.Error()}}
	}
	for _, v := range list {
		line, column := doc.At(v.Pointer)
		message := fmt.Sprintf("%s (%s)", v.Detail, v.Code)
		if v.Pointer != "" {
			message = v.Pointer + ": " + message
		}
		faults = append(faults, document.Fault{File: doc.File, Line: line, Column: column, Message: message})
	}
	return faults
}
