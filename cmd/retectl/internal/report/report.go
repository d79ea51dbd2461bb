// Package report prints the faults of a repository for those who read them:
// people, scripts, and the machines that show them beside a change.
package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Formats of a report.
const (
	Text   = "text"
	JSON   = "json"
	GitHub = "github"
	SARIF  = "sarif"
	JUnit  = "junit"
)

// Formats are all of them.
var Formats = []string{Text, JSON, GitHub, SARIF, JUnit}

// Write prints faults. In text they go to stderr, since stdout is for data; the
// other formats are data. No fault at all is "ok" in text, and an empty report
// in the others. Which rules were not judged stands on stderr where a format has no
// place for it.
func Write(format string, faults []rete.Fault, stdout, stderr io.Writer) error {
	note := unjudged(faults)
	if note != "" && (format == Text || format == JSON || format == SARIF) {
		defer fmt.Fprintln(stderr, note)
	}
	switch format {
	case JSON:
		return writeJSON(stdout, faults)
	case GitHub:
		return writeGitHub(stdout, faults)
	case SARIF:
		return writeSARIF(stdout, faults)
	case JUnit:
		return writeJUnit(stdout, faults)
	}
	for _, f := range visible(faults) {
		warning := ""
		if f.Warning {
			warning = "warning: "
		}
		fmt.Fprintf(stderr, "%s: %s[%s] %s\n", f.Place(), warning, f.Title(), f.Message)
	}
	if len(rete.Violations(faults)) == 0 {
		_, err := fmt.Fprintln(stdout, "ok")
		return err
	}
	return nil
}

// unjudged says which rules were not judged; "": all were.
func unjudged(faults []rete.Fault) string {
	var all []string
	for _, r := range rete.Unjudged(faults) {
		all = append(all, r.Number)
	}
	if all == nil {
		return ""
	}
	return fmt.Sprintf("rules %s were not judged; they need files that can be read and merged", strings.Join(all, ", "))
}

// writeJSON prints all faults; warnings, which fail nothing, say that they are.
func writeJSON(w io.Writer, faults []rete.Fault) error {
	b, err := json.MarshalIndent(append([]rete.Fault{}, faults...), "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// In the commands of a workflow, what would end a message or a property is
// escaped.
var (
	gitHubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	gitHubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func writeGitHub(w io.Writer, faults []rete.Fault) error {
	for _, f := range visible(faults) {
		level := "error"
		if f.Warning {
			level = "warning"
		}
		place := "file=" + gitHubProperty.Replace(f.Path)
		if f.Line > 0 {
			place += fmt.Sprintf(",line=%d,col=%d", f.Line, f.Column)
		}
		if _, err := fmt.Fprintf(w, "::%s %s,title=%s::%s\n", level, place, gitHubProperty.Replace(f.Title()), gitHubData.Replace(f.Message)); err != nil {
			return err
		}
	}
	if note := unjudged(faults); note != "" {
		_, err := fmt.Fprintf(w, "::notice::%s\n", gitHubData.Replace(note))
		return err
	}
	return nil
}

type suite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Class    string    `xml:"classname,attr"`
	Name     string    `xml:"name,attr"`
	Failures []failure `xml:"failure"`
	Skipped  *skipped  `xml:"skipped"`
}

type skipped struct {
	Message string `xml:"message,attr"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit prints a case for every rule, skipped where it was not judged, and one
// for what broke none.
func writeJUnit(w io.Writer, faults []rete.Fault) error {
	s := suite{Name: "retectl validate"}
	faults = visible(faults)
	left := rete.Unjudged(faults)
	add := func(title string, always, skip bool, of func(rete.Fault) bool) {
		c := testCase{Class: "retectl", Name: title}
		if skip {
			c.Skipped = &skipped{"not judged: it needs files that can be read and merged"}
			s.Skipped++
		}
		for _, f := range rete.Violations(faults) {
			if of(f) {
				c.Failures = append(c.Failures, failure{f.Message, f.String()})
			}
		}
		if always || len(c.Failures) > 0 {
			s.Cases = append(s.Cases, c)
			s.Tests++
		}
		if len(c.Failures) > 0 {
			s.Failures++
		}
	}
	for _, label := range []string{rete.LabelSource, rete.LabelCompile} {
		add(label, false, false, func(f rete.Fault) bool { return f.Rule == "" && f.Label == label })
	}
	for _, r := range rete.Rules {
		add("rule "+r.Number+" "+r.Label, true, slices.Contains(left, r), func(f rete.Fault) bool { return f.Rule == r.Number })
	}
	b, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	return err
}

// visible is faults as people and XML may read them: what a terminal would obey or
// hide, in the names of files and entries, is written as Go escapes it.
func visible(faults []rete.Fault) []rete.Fault {
	all := make([]rete.Fault, len(faults))
	for i, f := range faults {
		f.Path, f.Message = cli.Escaped(f.Path, ""), cli.Escaped(f.Message, "")
		all[i] = f
	}
	return all
}
