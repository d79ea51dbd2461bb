package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/policy"
)

// AdmissionDraft is one admission policy as its author wants it.
type AdmissionDraft struct {
	policy.AdmissionPolicy
	File  string // where it is written
	Line  int
	Tests []admission.Test
}

// AdmissionDrafts reads admission policies from files, directories and "-":
// Rego code with a METADATA comment (.rego), or YAML and JSON documents that hold
// the code, or name its file as rego_file. All is checked and the code compiled;
// every fault of every file is returned, with its place.
func AdmissionDrafts(ctx context.Context, paths []string, stdin io.Reader) (drafts []AdmissionDraft, faults []document.Fault) {
	texts, faults := admissionTexts(paths, stdin)
	names, priorities := map[AdmissionName]AdmissionDraft{}, map[admissionPriority]AdmissionDraft{}
	for _, t := range texts {
		d, broken := t.judge(ctx)
		faults = append(faults, broken...)
		faults = append(faults, t.twice(d, names, priorities)...)
		drafts = append(drafts, d)
	}
	return drafts, faults
}

// AdmissionName is what one policy alone is called: a name within a level and
// owner.
type AdmissionName struct {
	Level       policy.Level
	Owner, Name string
}

// NameOf is a policy's.
func NameOf(d policy.AdmissionPolicy) AdmissionName {
	level, owner := d.Scope()
	return AdmissionName{level, owner, d.Name}
}

// admissionPriority likewise.
type admissionPriority struct {
	level    policy.Level
	owner    string
	priority int32
}

// twice tells a name or a priority that an earlier draft has.
func (t admissionText) twice(d AdmissionDraft, names map[AdmissionName]AdmissionDraft, priorities map[admissionPriority]AdmissionDraft) []document.Fault {
	name := NameOf(d.AdmissionPolicy)
	if name.Level == "" || d.Name == "" {
		return nil // reported already
	}
	if before, ok := names[name]; ok {
		return t.fault("/name", "admission policy %q is written twice, first at %s:%d; keep one", d.Name, before.File, before.Line)
	}
	names[name] = d
	priority := admissionPriority{name.Level, name.Owner, d.Priority}
	if before, ok := priorities[priority]; ok {
		return t.fault("/priority", "priority %d is that of %q at %s:%d, of the same level and owner; choose another", d.Priority, before.Name, before.File, before.Line)
	}
	priorities[priority] = d
	return nil
}

// admissionText is an admission policy that was read and not judged yet.
type admissionText struct {
	file string
	line int
	body []byte // as the API takes it
	at   func(pointer string) (line, column int)
	code codePlace
}

func (t admissionText) fault(pointer, format string, args ...any) []document.Fault {
	line, column := t.at(pointer)
	message := fmt.Sprintf(format, args...)
	if pointer != "" {
		message = pointer + ": " + message
	}
	return []document.Fault{{File: t.file, Line: line, Column: column, Message: message}}
}

// judge reads the fields, compiles the code and reads the test cases.
func (t admissionText) judge(ctx context.Context) (d AdmissionDraft, faults []document.Fault) {
	d.File, d.Line = t.file, t.line
	var err error
	d.AdmissionPolicy, err = policy.DecodeAdmissionPolicy(t.body)
	var list policy.Violations
	errors.As(err, &list)
	for _, v := range list {
		faults = append(faults, t.fault(v.Pointer, "%s (%s)", v.Detail, v.Code)...)
	}
	if d.Rego != "" {
		// By itself, so that a fault beside the code hides none in it.
		c, err := admission.Compile(ctx, admission.Policy{Level: admission.Global, Rego: d.Rego})
		if err != nil {
			faults = append(faults, t.code.faults(err)...)
		} else if unmet := c.Unmeetable(); unmet != nil {
			faults = append(faults, t.code.faults(unmet)...)
		}
	}
	var unread admission.TestFaults
	d.Tests, err = admission.ParseTests(d.TestCases)
	errors.As(err, &unread)
	for _, f := range unread {
		faults = append(faults, t.fault(fmt.Sprintf("/test_cases/%d", f.Index), "%s", f.Message)...)
	}
	return d, faults
}

// codePlace is where Rego code stands: a file, or within one at a line and
// column.
type codePlace struct {
	file         string
	line, column int // 0: the file is the code
}

// faults tells every fault of the code.
func (p codePlace) faults(err error) (faults []document.Fault) {
	var list *admission.CompileError
	if !errors.As(err, &list) {
		return []document.Fault{{File: p.file, Line: p.line, Column: p.column, Message: err.Error()}}
	}
	for _, f := range list.Faults {
		fault := document.Fault{File: p.file, Line: f.Row, Column: f.Col, Message: fmt.Sprintf("%s (%s)", f.Message, f.Code)}
		if p.line > 0 {
			fault.Line, fault.Column = p.line, p.column
			fault.Message = fmt.Sprintf("/rego_code: %d:%d: %s", f.Row, f.Col, fault.Message)
		}
		faults = append(faults, fault)
	}
	return faults
}

// regoExtension is that of files that are Rego code.
const regoExtension = ".rego"

// admissionTexts reads the files. In a directory, code that a document names is
// no policy of its own, and neither are tests for other tools.
func admissionTexts(paths []string, stdin io.Reader) (texts []admissionText, faults []document.Fault) {
	var codes []string
	spoken := map[string]bool{}
	for _, path := range paths {
		files, err := document.Expand(path, regoExtension)
		if err == nil && len(files) == 0 {
			err = errors.New("no file below this directory ends with .rego, .yaml, .yml, .json, .ndjson or .jsonl")
		}
		if err != nil {
			faults = append(faults, document.Unreadable(path, err))
			continue
		}
		for _, file := range files {
			if filepath.Ext(file) == regoExtension {
				if file == path || !strings.HasSuffix(file, "_test"+regoExtension) {
					codes = append(codes, file)
				}
				continue
			}
			docs, broken := document.Load([]string{file}, stdin)
			faults = append(faults, broken...)
			for _, doc := range docs {
				t, broken := wrapped(doc)
				spoken[t.code.file] = true
				faults = append(faults, broken...)
				if len(broken) == 0 {
					texts = append(texts, t)
				}
			}
		}
	}
	for _, file := range codes {
		if spoken[filepath.Clean(file)] && !slices.Contains(paths, file) {
			continue
		}
		t, broken := annotated(file)
		faults = append(faults, broken...)
		if len(broken) == 0 {
			texts = append(texts, t)
		}
	}
	return texts, faults
}

// annotated reads Rego code with its METADATA comment: the title is the name,
// by default the file's; custom holds the other fields.
func annotated(file string) (admissionText, []document.Fault) {
	text, err := document.Code(file)
	if err != nil {
		return admissionText{}, []document.Fault{document.Unreadable(file, err)}
	}
	t := admissionText{file: file, code: codePlace{file: file}}
	m, err := admission.ReadMetadata(text)
	if err != nil {
		return t, t.code.faults(err)
	}
	t.line = m.Row
	t.at = func(pointer string) (int, int) { return m.Row + inComment(text, m.Row, pointer), 1 }
	fields := map[string]any{"name": strings.TrimSuffix(filepath.Base(file), regoExtension), "rego_code": text}
	if m.Title != "" {
		fields["name"] = m.Title
	}
	if m.Description != "" {
		fields["description"] = m.Description
	}
	for _, name := range slices.Sorted(maps.Keys(m.Custom)) {
		if _, said := fields[name]; said || name == "name" {
			return t, t.fault("/"+name, "is not said in custom: the title is the name, and the file is the code")
		}
		fields[name] = m.Custom[name]
	}
	t.body, err = json.Marshal(fields)
	if err != nil {
		return t, t.fault("", "%v", err)
	}
	return t, nil
}

// inComment counts the lines from the comment's first one to that which says
// the field of a pointer.
func inComment(code string, row int, pointer string) int {
	field, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if field == "name" {
		field = "title"
	}
	lines := strings.Split(code, "\n")[row-1:]
	for i, line := range lines {
		text, comment := strings.CutPrefix(line, "#")
		if !comment {
			break
		}
		if strings.HasPrefix(strings.TrimSpace(text), field+":") {
			return i
		}
	}
	return 0
}

// exportedFields are those that a plane gives, and another one gives anew.
var exportedFields = []string{"id", "version", "created_at", "updated_at", "created_by", "warnings"}

// wrapped reads a document: an admission policy as the API takes it or as
// 'admission list' prints it, or with rego_file, a path from where the document
// stands, in place of the code.
func wrapped(doc document.Document) (admissionText, []document.Fault) {
	t := admissionText{file: doc.File, line: doc.Line, body: doc.JSON, at: doc.At, code: codePlace{file: doc.File}}
	t.code.line, t.code.column = doc.At("/rego_code")
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc.JSON, &fields) != nil {
		return t, nil // no object, and judged as that
	}
	_, exported := fields["version"]
	for _, name := range exportedFields {
		if exported {
			delete(fields, name)
		}
	}
	raw, named := fields["rego_file"]
	if !exported && !named {
		return t, nil // as it stands, with what is said twice
	}
	if named {
		code, broken := t.read(raw)
		if broken == nil && fields["rego_code"] != nil {
			broken = t.fault("/rego_file", "the code is here already, as rego_code; keep one")
		}
		if broken != nil {
			return t, broken
		}
		t.code = codePlace{file: code.file}
		delete(fields, "rego_file")
		fields["rego_code"] = code.text
	}
	t.body, _ = json.Marshal(fields) // of what was JSON
	return t, nil
}

// regoFile is the code that a document names.
type regoFile struct {
	file string
	text json.RawMessage // a string
}

func (t admissionText) read(raw json.RawMessage) (code regoFile, faults []document.Fault) {
	const at = "/rego_file"
	if json.Unmarshal(raw, &code.file) != nil || code.file == "" {
		return code, t.fault(at, "want the path of a file")
	}
	if !filepath.IsAbs(code.file) && t.file != document.Stdin {
		code.file = filepath.Join(filepath.Dir(t.file), code.file)
	}
	code.file = filepath.Clean(code.file)
	text, err := document.Code(code.file)
	if err == nil {
		code.text, err = json.Marshal(text)
	}
	if err != nil {
		faults = t.fault(at, "%s", document.Unreadable(code.file, err))
		faults[0].Unreadable = true
		return code, faults
	}
	return code, nil
}

// TestAdmission runs the test cases that a draft carries, on this machine, and says
// what of its code they cover.
func TestAdmission(ctx context.Context, d AdmissionDraft) ([]admission.TestResult, admission.Coverage) {
	p := admission.PolicyOf("draft", d.AdmissionPolicy)
	p.Tests = d.Tests
	results, coverage, err := admission.NewEngine(admission.EngineOptions{}).TestCovered(ctx, p)
	if err != nil {
		results = []admission.TestResult{{Name: "compile", Failure: err.Error()}}
	}
	return results, coverage
}

// AdmissionFiles are the files that AdmissionDrafts would read, as far as they are
// there: those that documents name included.
func AdmissionFiles(paths []string) (files []string) {
	texts, _ := admissionTexts(paths, strings.NewReader(""))
	for _, t := range texts {
		files = append(files, t.code.file)
	}
	for _, path := range paths {
		more, _ := document.Expand(path, regoExtension) // what is not there may come
		files = append(files, more...)
	}
	slices.Sort(files)
	return slices.Compact(files)
}
