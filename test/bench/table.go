package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// table is everything a run found.
type table struct {
	Machine  machine  `json:"machine"`
	Quick    bool     `json:"quick,omitempty"` // a tenth of the work: compare with nothing
	Seconds  float64  `json:"seconds"`
	Measures []result `json:"measures"`
}

// result is what became of one measure.
type result struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Load    load    `json:"load"`
	Seconds float64 `json:"seconds"`
	Lines   []line  `json:"lines,omitempty"`
	Error   string  `json:"error,omitempty"` // why nothing was measured
}

// line is one figure.
type line struct {
	What    string    `json:"what"`
	Value   float64   `json:"value"` // the median of Samples, where there are any
	Unit    string    `json:"unit"`
	Samples samples   `json:"samples,omitempty"`
	Floor   *floor    `json:"floor,omitempty"`
	Ratio   float64   `json:"ratio,omitempty"` // value / floor
	Targets []verdict `json:"targets,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

// floor is bare work that the figure is set beside, in the same unit.
type floor struct {
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Samples samples `json:"samples,omitempty"`
}

// verdict is a target and whether the line holds it. One that would be held on a machine
// that others disturbed is not: what it means is not known.
type verdict struct {
	Target    string `json:"target"`
	Holds     bool   `json:"holds"`
	Disturbed bool   `json:"disturbed,omitempty"`
}

// figure is a line of the median of some samples.
func figure(what, unit string, s samples) *line {
	return &line{What: what, Unit: unit, Samples: s, Value: s.median()}
}

// beside sets the line beside its floor.
func (l *line) beside(what string, s samples) *line {
	l.Floor = &floor{What: what, Value: s.median(), Samples: s}
	if l.Floor.Value > 0 {
		l.Ratio = l.Value / l.Floor.Value
	}
	return l
}

func (l *line) target(text string, holds bool) *line {
	l.Targets = append(l.Targets, verdict{Target: text, Holds: holds})
	return l
}

// atLeast and the others compare what is printed, the median.
func (l *line) atLeast(v float64) *line {
	return l.target(fmt.Sprintf(">= %s %s", short(v), l.Unit), l.Value >= v)
}

func (l *line) atMost(v float64) *line {
	return l.target(fmt.Sprintf("<= %s %s", short(v), l.Unit), l.Value <= v)
}

func (l *line) ratioAtLeast(v float64) *line {
	return l.target(fmt.Sprintf(">= %s x floor", short(v)), l.Ratio >= v)
}

func (l *line) ratioAtMost(v float64) *line {
	return l.target(fmt.Sprintf("<= %s x floor", short(v)), l.Ratio <= v)
}

func (l *line) note(format string, args ...any) *line {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
	return l
}

// text writes the table for people.
func (t *table) text(w io.Writer) error {
	fmt.Fprintln(w, t.Machine)
	if t.Quick {
		fmt.Fprintln(w, "a quick run: a tenth of the work, taken once; compare it with nothing")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nmeasure\tfigure\tfloor\tratio\ttarget\tholds")
	var notes strings.Builder
	for _, r := range t.Measures {
		r.rows(tw)
		r.remarks(&notes)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%.0f s in all\n", notes.String(), t.Seconds)
	return err
}

func (r *result) rows(w io.Writer) {
	if r.Error != "" {
		fmt.Fprintf(w, "%s\tFAILED\t\t\t\tno\n", r.Name)
	}
	for _, l := range r.Lines {
		name := l.title(r.Name)
		beside, ratio := "", ""
		if l.Floor != nil {
			beside, ratio = short(l.Floor.Value)+" "+l.Unit, "-"
			if l.Ratio > 0 {
				ratio = short(l.Ratio)
			}
		}
		targets := l.Targets
		if len(targets) == 0 {
			targets = []verdict{{}}
		}
		for i, v := range targets {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", name, short(l.Value)+" "+l.Unit, beside, ratio, v.Target, v.word())
		}
	}
}

func (v verdict) word() string {
	switch {
	case v.Target == "":
		return ""
	case v.Holds:
		return "yes"
	case v.Disturbed:
		return "disturbed"
	}
	return "NO"
}

// judge takes back what was held while others disturbed.
func (r *result) judge() {
	if !r.Load.disturbed() {
		return
	}
	for i := range r.Lines {
		for k := range r.Lines[i].Targets {
			v := &r.Lines[i].Targets[k]
			v.Holds, v.Disturbed = false, v.Holds
		}
	}
}

// remarks say how busy the machine was, what the floors are, and what else was
// seen.
func (r *result) remarks(w io.Writer) {
	fmt.Fprintf(w, "%s: %.0f s, load average %.2f", r.Name, r.Seconds, r.Load.Average)
	fmt.Fprintln(w, r.Load.remark())
	if r.Error != "" {
		fmt.Fprintf(w, "  FAILED: %s\n", r.Error)
	}
	for _, l := range r.Lines {
		if l.Floor != nil {
			fmt.Fprintf(w, "  %s: floor is %s%s; measured %s\n", cmpName(l.What, r.What), l.Floor.What, l.Floor.Samples.spread(), strings.TrimPrefix(l.Samples.spread(), " "))
		}
		for _, n := range l.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
}

func cmpName(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// spread lists what was taken, when there are few.
func (s samples) spread() string {
	const few = 9
	switch {
	case len(s) == 1:
		return " (1 sample)"
	case len(s) > few:
		return fmt.Sprintf(" (%d samples)", len(s))
	}
	texts := make([]string, len(s))
	for i, v := range s {
		texts[i] = short(v)
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

// short prints a number with three significant digits, whole when it is large.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return trimmed(fmt.Sprintf("%.1f", v))
	case a >= 1:
		return trimmed(fmt.Sprintf("%.2f", v))
	}
	return trimmed(fmt.Sprintf("%.3f", v))
}

func trimmed(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// grouped writes thousands apart.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// verdict is nil when the run is to end well.
func (t *table) verdict(strict bool) error {
	var failed, missed, unknown []string
	for _, r := range t.Measures {
		if r.Error != "" {
			failed = append(failed, r.Name)
			continue
		}
		for _, l := range r.Lines {
			for _, v := range l.Targets {
				switch row := l.title(r.Name) + " " + v.Target; {
				case v.Disturbed:
					unknown = append(unknown, row)
				case !v.Holds:
					missed = append(missed, row)
				}
			}
		}
	}
	var err error
	if len(failed) > 0 {
		err = fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	if strict && len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("missed: %s", strings.Join(missed, "; ")))
	}
	if strict && len(unknown) > 0 {
		err = errors.Join(err, fmt.Errorf("not known, as other work disturbed: %s", strings.Join(unknown, "; ")))
	}
	return err
}
