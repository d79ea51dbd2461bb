package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/test/leftout"
)

// event is what go test -json prints: go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// line is one that a package printed, of a test or of itself.
type line struct{ test, text string }

// outcome is what is known of a package that has not ended.
type outcome struct {
	lines  []line
	passed map[string]bool
}

// retell prints events as go test without -v would have, and the notes among them.
// A line that is no event is printed as it is.
func retell(out, notes io.Writer, events io.Reader) error {
	t := teller{out: out, notes: notes, packages: map[string]*outcome{}}
	in := bufio.NewReader(events)
	for {
		text, err := in.ReadString('\n')
		if text != "" {
			if err := t.tell(text); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return t.end()
		case err != nil:
			return err
		}
	}
}

// teller knows the packages that have not ended.
type teller struct {
	out, notes io.Writer
	packages   map[string]*outcome
	failed     bool
}

// tell takes one line of go test -json.
func (t *teller) tell(text string) error {
	var e event
	if json.Unmarshal([]byte(text), &e) != nil || e.Action == "" {
		_, err := io.WriteString(t.out, text)
		return err
	}
	if e.Action == "build-output" {
		_, err := io.WriteString(t.out, e.Output)
		return err
	}
	p := t.packages[e.Package]
	if p == nil {
		p = &outcome{passed: map[string]bool{}}
		t.packages[e.Package] = p
	}
	switch e.Action {
	case "output":
		if leftout.Noted(e.Output) {
			_, err := io.WriteString(t.notes, e.Output)
			return err
		}
		p.lines = append(p.lines, line{e.Test, e.Output})
	case "pass", "skip", "fail":
		if e.Test != "" {
			p.passed[e.Test] = e.Action != "fail"
			return nil
		}
		delete(t.packages, e.Package)
		t.failed = t.failed || e.Action == "fail"
		return p.print(t.out, e.Action == "fail")
	}
	return nil
}

// print prints what go test would of a package that has ended: how, and where it failed
// what did not pass.
func (p *outcome) print(out io.Writer, failed bool) error {
	var b strings.Builder
	for _, l := range p.lines {
		switch {
		case progress(l.text), p.passed[l.test]:
		case failed, l.test == "" && summary(l.text):
			b.WriteString(l.text)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// end prints what packages printed that did not come to an end, and go test's last line.
func (t *teller) end() (err error) {
	for _, name := range slices.Sorted(maps.Keys(t.packages)) {
		err = errors.Join(err, t.packages[name].print(t.out, true))
	}
	if t.failed {
		_, bad := io.WriteString(t.out, "FAIL\n")
		err = errors.Join(err, bad)
	}
	return err
}

// progress recognizes what go test prints of tests with -v alone.
func progress(text string) bool {
	for _, s := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}

// summary recognizes the line with which go test ends a package that did not fail.
func summary(text string) bool {
	return strings.HasPrefix(text, "ok  \t") || strings.HasPrefix(text, "?   \t")
}
