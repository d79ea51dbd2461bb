// Package author brings the policies of a project to what an author's
// documents say: it checks every document before it sends any, and creates or
// revises by slug.
package author

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/policy"
)

// Draft is one policy as its author wants it.
type Draft struct {
	resource.Draft
	At      document.Document // where it is written
	Content policy.Content    // what it says, of one that was read
}

// Patch makes of a policy what the draft says; a name that it does not say stays.
func (d Draft) Patch() resource.Patch {
	patch := resource.Patch{Selector: &d.Selector, NewOrder: d.Order.Whole(), Rules: d.Rules}
	if d.DisplayName != "" {
		patch.DisplayName = &d.DisplayName
	}
	return patch
}

// Drafts checks documents by the rules of the domain. It returns every fault of
// every document, with its place.
func Drafts(docs []document.Document) (drafts []Draft, faults []document.Fault) {
	first, others := map[string]document.Document{}, map[string]bool{}
	for i, r := range readAll(docs) {
		doc, d, err := docs[i], r.draft, r.err
		if r.kubernetes {
			faults = append(faults, document.Fault{File: doc.File, Line: doc.Line, Message: "this is a Kubernetes object: edict policy import -f " + fileArgument(doc.File)})
			continue
		}
		if err != nil {
			other := OtherKind(doc)
			if other == "" {
				faults = append(faults, broken(doc, err)...)
			} else if !others[doc.File] { // a file of many says so once
				faults = append(faults, document.Fault{File: doc.File, Line: doc.Line, Message: other})
				others[doc.File] = true
			}
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

// reading is what one document was found to be.
type reading struct {
	draft      Draft
	err        error
	kubernetes bool
}

// readAll reads every document, on all cores: one says nothing about another.
func readAll(docs []document.Document) []reading {
	all := make([]reading, len(docs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	const atOnce = 16
	for from := 0; from < len(docs); from += atOnce {
		g.Go(func() error {
			for i := from; i < min(from+atOnce, len(docs)); i++ {
				if r := &all[i]; kubernetes.Recognize(docs[i].JSON) {
					r.kubernetes = true
				} else {
					r.draft, r.err = Read(docs[i])
				}
			}
			return nil
		})
	}
	_ = g.Wait() // what went wrong stands with each
	return all
}

// fileArgument is what -f names a file with.
func fileArgument(file string) string {
	if file == document.Stdin {
		return "-"
	}
	return file
}

// Read checks one document: a policy as its author writes it, or one that was
// exported, of which the slug, the name and what the head says count. The error
// is policy.Violations, whose pointers are those of the document.
func Read(doc document.Document) (Draft, error) {
	d := Draft{At: doc}
	body, exported, err := authored(doc.JSON)
	if err != nil {
		return d, err
	}
	read, err := policy.DecodeDraft(body)
	if err != nil {
		return d, inExport(exported, err)
	}
	d.Content = read.Content
	return d, json.Unmarshal(body, &d.Draft)
}

// Translated is a policy that was made of something else, which is written at a
// place. The error is policy.Violations.
func Translated(made policy.Draft, at document.Document) (Draft, error) {
	d := Draft{At: at}
	body := policy.AppendDraft(nil, made)
	if _, err := policy.DecodeDraft(body); err != nil {
		return d, err
	}
	return d, json.Unmarshal(body, &d.Draft)
}

// authored is the part of a document that an author writes: of what 'policy get
// -o json' and 'policy list -o json' print, not the ids and times, which another
// plane gives anew.
func authored(doc []byte) (body []byte, exported bool, err error) {
	var e struct {
		HeadRevisionID json.RawMessage `json:"head_revision_id"`
		Slug           json.RawMessage `json:"slug"`
		DisplayName    json.RawMessage `json:"display_name"`
		Head           *struct {
			content
		} `json:"head"`
	}
	if !bytes.Contains(doc, []byte("head_revision_id")) { // most are not, and need not be read for it
		return doc, false, nil
	}
	if json.Unmarshal(doc, &e) != nil || e.HeadRevisionID == nil {
		return doc, false, nil
	}
	if e.Head == nil {
		return nil, true, policy.Violations{{Pointer: "/head", Code: policy.CodeMissing, Detail: "the policy was exported without its rules; export it with 'edict policy list -o json'"}}
	}
	body, err = json.Marshal(struct {
		Slug        json.RawMessage `json:"slug,omitempty"`
		DisplayName json.RawMessage `json:"display_name,omitempty"`
		content
	}{e.Slug, e.DisplayName, e.Head.content})
	return body, true, err
}

// content is what a revision says, unread.
type content struct {
	Selector    json.RawMessage `json:"selector,omitempty"`
	Tier        json.RawMessage `json:"tier,omitempty"`
	Priority    json.RawMessage `json:"priority,omitempty"`
	DefaultDeny json.RawMessage `json:"default_deny,omitempty"`
	Mode        json.RawMessage `json:"mode,omitempty"`
	Rules       json.RawMessage `json:"rules,omitempty"`
}

// inExport has the pointers of violations begin at the document that was
// exported.
func inExport(exported bool, err error) error {
	var list policy.Violations
	if !exported || !errors.As(err, &list) {
		return err
	}
	for i, v := range list {
		switch field, _, _ := strings.Cut(strings.TrimPrefix(v.Pointer, "/"), "/"); field {
		case "selector", "tier", "priority", "default_deny", "mode", "rules":
			list[i].Pointer = "/head" + v.Pointer
		}
	}
	return list
}

// broken are the faults of a document with the places of their pointers.
func broken(doc document.Document, err error) (faults []document.Fault) {
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
		faults = append(faults, document.Fault{File: doc.File, Line: line, Column: column, Message: message, Pointer: v.Pointer, Code: v.Code})
	}
	return faults
}
