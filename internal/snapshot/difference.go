package snapshot

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/edictdev/edict/internal/projector"
)

// Difference is the first fact in which two read models differ at one
// sequence. A nil side has no such fact.
type Difference struct {
	Live, Log *projector.Fact
}

// Compare finds the first fact that differs between a live read model and one
// folded from the log; nil: there is none. Both sides yield them in the order
// of projector.Facts.
func Compare(live, log iter.Seq2[projector.Fact, error]) (*Difference, error) {
	nextLive, stopLive := iter.Pull2(live)
	defer stopLive()
	nextLog, stopLog := iter.Pull2(log)
	defer stopLog()
	for {
		a, err, more := nextLive()
		if err != nil {
			return nil, fmt.Errorf("read the live facts: %w", err)
		}
		b, err, moreLog := nextLog()
		if err != nil {
			return nil, fmt.Errorf("read the facts of the log: %w", err)
		}
		if more && place(a) < 0 { // where it stands among the others nobody can say here
			return nil, fmt.Errorf("facts of kind %q are newer than this binary: compare with the one that the plane runs", a.Kind)
		}
		switch {
		case !more && !moreLog:
			return nil, nil
		case !moreLog, more && order(a, b) < 0:
			return &Difference{Live: &a}, nil
		case !more, order(a, b) > 0:
			return &Difference{Log: &b}, nil
		case !maps.Equal(a.Values, b.Values):
			return &Difference{Live: &a, Log: &b}, nil
		}
	}
}

// order compares the places of two facts among all.
func order(a, b projector.Fact) int {
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.Key, b.Key))
}

// place is that of a fact's kind; of a kind that this binary does not know, -1.
func place(f projector.Fact) int {
	return slices.IndexFunc(projector.FactKinds, func(k projector.FactKind) bool { return k.Name == f.Kind })
}

// Node is the node that the difference is about in its rows alone: whose rows
// are to be compared one by one to name it. Empty: none.
func (d *Difference) Node() string {
	if d.Live == nil || d.Log == nil || d.Live.Kind != projector.FactNode || len(d.names()) != 1 || d.names()[0] != "rows" {
		return ""
	}
	_, id, _ := strings.Cut(d.Live.Key, "/")
	return id
}

// names are those of the values that differ.
func (d *Difference) names() []string {
	var names []string
	for name := range d.Live.Values {
		if d.Live.Values[name] != d.Log.Values[name] {
			names = append(names, name)
		}
	}
	for name := range d.Log.Values {
		if _, both := d.Live.Values[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// String names the fact, and what each side has of it.
func (d *Difference) String() string {
	switch {
	case d.Log == nil:
		return title(d.Live) + ": the live read model has it, the log does not: " + values(d.Live)
	case d.Live == nil:
		return title(d.Log) + ": the log has it, the live read model does not: " + values(d.Log)
	}
	var b strings.Builder
	b.WriteString(title(d.Live))
	for i, name := range d.names() {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%slive has %s %s, the log says %s", sep, name, quoted(d.Live, name), quoted(d.Log, name))
	}
	return b.String()
}

func title(f *projector.Fact) string { return projector.FactKinds[place(*f)].Title(f.Key) }

func values(f *projector.Fact) string {
	parts := make([]string, 0, len(f.Values))
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		parts = append(parts, name+" "+quoted(f, name))
	}
	return strings.Join(parts, ", ")
}

func quoted(f *projector.Fact, name string) string {
	v, has := f.Values[name]
	switch {
	case !has:
		return "nothing"
	case v == "" || strings.ContainsAny(v, " ,;"):
		return fmt.Sprintf("%q", v)
	}
	return v
}
