package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
)

// comparison says what became of the figures of an earlier run.
type comparison struct {
	before *table
	rows   []compared
}

// compared is one figure of both runs.
type compared struct {
	name        string
	before, now string
	change      float64 // of the ratio to the floor, or of the figure where there is none; 0.1: a tenth more
	verdict     string
}

// Verdicts of a comparison.
const (
	better  = "better"
	worse   = "WORSE"
	same    = "same"
	unsaid  = "disturbed"     // other work took part in one of the runs
	foreign = "other machine" // and there is no floor to hold the figure against
	added   = "new"
	gone    = "gone"
)

const (
	// leastChange is what two runs of one binary differ by on a quiet machine.
	leastChange = 0.05
	// loneNoise is how far a figure may be off that was taken once.
	loneNoise = 0.05
)

// readTable reads what -json wrote of a whole run.
func readTable(path string) (*table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &table{}
	if err := json.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("%s is not what -json writes: %w", path, err)
	}
	if len(t.Measures) == 0 {
		return nil, fmt.Errorf("%s has no measures: it is not what -json writes", path)
	}
	if t.Quick {
		return nil, fmt.Errorf("%s is of a quick run, which is compared with nothing: write one without -quick", path)
	}
	return t, nil
}

// compare holds the figures of a run against those of an earlier one. Measures that
// this run was not asked for are left out.
func compare(before, now *table) *comparison {
	c := &comparison{before: before}
	earlier := map[string]*result{}
	for i := range before.Measures {
		earlier[before.Measures[i].Name] = &before.Measures[i]
	}
	for i := range now.Measures {
		r := &now.Measures[i]
		was := earlier[r.Name]
		if was == nil {
			was = &result{}
		}
		c.measure(was, r, before.Machine != now.Machine)
	}
	return c
}

// measure compares the lines of one measure, by what they say they are.
func (c *comparison) measure(was, is *result, moved bool) {
	if is.Error != "" {
		c.rows = append(c.rows, compared{name: is.Name, now: "FAILED", verdict: worse})
		return
	}
	earlier := map[string]*line{}
	for i := range was.Lines {
		earlier[was.Lines[i].What] = &was.Lines[i]
	}
	for i := range is.Lines {
		l := &is.Lines[i]
		row := compared{name: l.title(is.Name), now: l.shown(), verdict: added}
		if old := earlier[l.What]; old != nil {
			delete(earlier, l.What)
			row.before = old.shown()
			row.change, row.verdict = changeOf(old, l)
			switch {
			case was.Load.disturbed() || is.Load.disturbed():
				row.verdict = unsaid
			case moved && !ratios(old, l):
				row.verdict = foreign
			}
		}
		c.rows = append(c.rows, row)
	}
	for i := range was.Lines {
		if old := &was.Lines[i]; earlier[old.What] != nil {
			c.rows = append(c.rows, compared{name: old.title(is.Name), before: old.shown(), verdict: gone})
		}
	}
}

// ratios: both lines stand beside a floor.
func ratios(a, b *line) bool { return a.Ratio > 0 && b.Ratio > 0 }

// changeOf is by how much a line changed, and whether that is more than chance and for
// the better.
func changeOf(old, l *line) (float64, string) {
	from, to := old.Value, l.Value
	noise := math.Hypot(old.Samples.noise(), l.Samples.noise())
	if ratios(old, l) {
		from, to = old.Ratio, l.Ratio
		noise = math.Hypot(noise, math.Hypot(old.Floor.Samples.noise(), l.Floor.Samples.noise()))
	}
	if from == 0 {
		return 0, same
	}
	change := to/from - 1
	switch {
	case math.Abs(change) <= max(leastChange, 2*noise):
		return change, same
	case change > 0 == l.moreIsBetter():
		return change, better
	}
	return change, worse
}

// noise is by what share of itself a median may be off, as far as its samples show: the
// distance of the quartiles, which many samples make less.
func (s samples) noise() float64 {
	m := s.median()
	if len(s) < 2 || m == 0 {
		return loneNoise
	}
	return (s.at(0.75) - s.at(0.25)) / m / math.Sqrt(float64(len(s)))
}

// moreIsBetter goes by the targets of a line and, where it has none, by its unit.
func (l *line) moreIsBetter() bool {
	for _, v := range l.Targets {
		return strings.HasPrefix(v.Target, ">")
	}
	return strings.HasSuffix(l.Unit, "/s")
}

// title names a line of a measure.
func (l *line) title(measure string) string {
	if l.What == "" {
		return measure
	}
	return measure + ": " + l.What
}

// shown is a figure, with its ratio where it has a floor.
func (l *line) shown() string {
	s := short(l.Value) + " " + l.Unit
	if l.Ratio > 0 {
		s += ", " + short(l.Ratio) + " x floor"
	}
	return s
}

// text writes the comparison for people.
func (c *comparison) text(w io.Writer, now machine) error {
	fmt.Fprintf(w, "\nbeside the earlier run, on %s", c.before.Machine)
	if c.before.Machine != now {
		fmt.Fprint(w, ", which is another machine")
	}
	fmt.Fprintln(w, ": what has a floor is compared by its ratio")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nmeasure\tbefore\tnow\tchange\tverdict")
	for _, r := range c.rows {
		change := ""
		if r.before != "" && r.now != "" {
			change = fmt.Sprintf("%+.0f %%", 100*r.change)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.name, r.before, r.now, change, r.verdict)
	}
	return tw.Flush()
}

// verdict is nil when the run is to end well.
func (c *comparison) verdict(strict bool) error {
	var names []string
	for _, r := range c.rows {
		if r.verdict == worse {
			names = append(names, r.name)
		}
	}
	if !strict || len(names) == 0 {
		return nil
	}
	return fmt.Errorf("worse than before: %s", strings.Join(names, "; "))
}
