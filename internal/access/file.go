package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	strict "github.com/go-json-experiment/json"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// Entry is a principal of a file.
type Entry struct {
	Principal policy.Principal
	Relations []policy.Relation
}

// File is the principals that a file gives a plane beside those of its log: the
// first administrator, above all.
type File map[policy.PrincipalID]*Entry

// document is a file as it is written.
type document struct {
	Principals []written `json:"principals"`
}

type written struct {
	ID        string          `json:"id"`
	Principal json.RawMessage `json:"principal"`
	Relations []string        `json:"relations"`
}

// ReadFile reads a file of principals. It names every fault.
func ReadFile(path string) (File, error) {
	body, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	f, err := parseFile(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// maxWhole bounds a file that is held as a whole, in bytes: what is larger is not the file that
// was meant, and a device has no end.
const maxWhole = 64 << 20

// readWhole reads a file, or what a pipe gives.
func readWhole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxWhole+1))
	if err == nil && len(text) > maxWhole {
		err = fmt.Errorf("%s is larger than %d MiB; name the file that was meant", path, maxWhole>>20)
	}
	return text, err
}

func parseFile(body []byte) (File, error) {
	// Of two members of one name the first would be as good as never written.
	var doc document
	err := strict.Unmarshal(body, &doc, strict.RejectUnknownMembers(true))
	if at, unknown := errors.AsType[*strict.SemanticError](err); unknown && errors.Is(err, strict.ErrUnknownName) {
		return nil, fmt.Errorf("%s: unknown field; remove it", at.JSONPointer)
	}
	if err != nil {
		return nil, fmt.Errorf(`want {"principals":[{"id","principal","relations"}]} and nothing else: %w`, err)
	}
	f := File{}
	holders := map[key]policy.PrincipalID{}
	var faults []error
	for i, w := range doc.Principals {
		id, err := policy.ParsePrincipalID(w.ID)
		if err == nil && f[id] != nil {
			err = fmt.Errorf("%s occurs twice; keep one", id)
		}
		fault := func(what string, err error) {
			if err == nil {
				return
			}
			sep := ": "
			if strings.HasPrefix(err.Error(), "/") { // it says where in that
				sep = ""
			}
			faults = append(faults, fmt.Errorf("/principals/%d/%s%s%w", i, what, sep, err))
		}
		fault("id", err)
		e := &Entry{}
		e.Principal, err = policy.DecodePrincipal(w.Principal)
		fault("principal", err)
		for p := range proofs(e.Principal) {
			if by, taken := holders[p.key]; taken && by != id {
				fault("principal", fmt.Errorf("/%s/%d: %s lists it, too, and it would prove neither; take it from one of them", p.list, p.at, by))
			}
			holders[p.key] = id
		}
		for n, text := range w.Relations {
			r, err := policy.ParseRelation(text)
			if err == nil && !r.Whole() {
				err = fmt.Errorf("%s names no project; write node:<project>/%s#%s", r, r.Node, r.Name)
			}
			fault(fmt.Sprintf("relations/%d", n), err)
			e.Relations = append(e.Relations, r)
		}
		f[id] = e
	}
	return f, errors.Join(faults...)
}

// Write writes the file whole or not at all, readable by its owner alone.
func (f File) Write(path string) error {
	doc := document{Principals: []written{}}
	for id, e := range f {
		w := written{ID: string(id), Principal: policy.AppendPrincipal(nil, e.Principal), Relations: []string{}}
		for _, r := range e.Relations {
			w.Relations = append(w.Relations, r.String())
		}
		doc.Principals = append(doc.Principals, w)
	}
	slices.SortFunc(doc.Principals, func(a, b written) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	body, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return artifact.WriteFile(path, append(body, '\n'), 0o600)
}
