package rete

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule is one rule of the specification.
type Rule struct {
	Number string // "1" to "15" and "8a"
	Label  string
}

// Rules are all rules, in the order of reports. Numbers 14 and 15 are not in the
// specification: two listeners on one port cannot both start, and a private key
// that is committed is everybody's.
var Rules = []Rule{
	{"1", "schema"},
	{"2", "cross-references"},
	{"3", "principal registry"},
	{"4", "enrollment log consistency"},
	{"5", "service placement"},
	{"6", "management-node integrity"},
	{"7", "reserved-name protection"},
	{"8", "operator presence"},
	{"8a", "mgmt-plane signer presence"},
	{"9", "vertex graph reachability"},
	{"10", "workload vertex binding"},
	{"11", "access consistency"},
	{"12", "principal role coherence"},
	{"13", "source merge integrity"},
	{"14", "local-port uniqueness"},
	{"15", "key custody"},
}

// Labels of faults that break no rule.
const (
	LabelSource  = "source"  // a file cannot be read, or is not YAML
	LabelCompile = "compile" // a valid repository that cannot be compiled
)

// Fault is one thing wrong with a repository.
type Fault struct {
	Rule    string `json:"rule"`  // number of the rule that is broken; empty: see Label
	Label   string `json:"label"` // the rule in words, LabelSource or LabelCompile
	Path    string `json:"path"`  // the file, as it was named
	Line    int    `json:"line"`  // from 1; 0: the file as a whole
	Column  int    `json:"column"`
	Name    string `json:"name"` // the entry, such as services.api; empty: none
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"` // harmless, but hardly meant
}

// Unreadable says whether the source could not be read at all, so that nothing
// was judged.
func (f Fault) Unreadable() bool { return f.Rule == "" && f.Label == LabelSource }

// Place is file:line:column, as far as it is known.
func (f Fault) Place() string {
	if f.Line == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s:%d:%d", f.Path, f.Line, f.Column)
}

// Title is the rule, number and label.
func (f Fault) Title() string {
	if f.Rule == "" {
		return f.Label
	}
	return "rule " + f.Rule + " " + f.Label
}

func (f Fault) String() string {
	return fmt.Sprintf("%s: [%s] %s", f.Place(), f.Title(), f.Message)
}

func ruleOrder(number string) int {
	return slices.IndexFunc(Rules, func(r Rule) bool { return r.Number == number })
}

func labelOf(number string) string {
	if i := ruleOrder(number); i >= 0 {
		return Rules[i].Label
	}
	return LabelSource
}

// sortFaults orders a report: by rule, then by name and place.
func sortFaults(faults []Fault) []Fault {
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(ruleOrder(a.Rule), ruleOrder(b.Rule)), strings.Compare(a.Name, b.Name), strings.Compare(a.Path, b.Path),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(faults)
}

// Violations are the faults that are no mere warnings.
func Violations(faults []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.Warning })
}

// Unjudged are the rules that could not be asked, because files cannot be read or
// merged: until what breaks rules 1 and 13 is repaired, nobody knows what the
// repository says.
func Unjudged(faults []Fault) []Rule {
	if !slices.ContainsFunc(faults, func(f Fault) bool { return !f.Warning && (f.unjudged() || f.Rule == "13") }) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(Rules), func(r Rule) bool { return r.Number == "1" || r.Number == "13" })
}

// place is where something stands.
type place struct {
	file         string
	line, column int
}

// where finds a place, for a check that seldom has a fault to report.
type where func() place

// report collects faults.
type report struct{ faults []Fault }

func (r *report) add(rule string, at place, name, format string, args ...any) {
	r.faults = append(r.faults, Fault{
		Rule: rule, Label: labelOf(rule), Path: at.file, Line: at.line, Column: at.column, Name: name,
		Message: fmt.Sprintf(format, args...),
	})
}

func (r *report) warn(rule string, at place, name, format string, args ...any) {
	r.add(rule, at, name, format, args...)
	r.faults[len(r.faults)-1].Warning = true
}

// list writes names as people read them.
func list(names []string) string {
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}
