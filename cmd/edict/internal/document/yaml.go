package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Bounds of one YAML document, once its aliases are written out: an alias is
// short, what it stands for need not be.
const (
	maxNodes = 500_000
	maxDepth = 100
)

// parseYAML reads a stream of YAML documents. Empty ones count for nothing. A
// text that cannot be scanned ends it.
func parseYAML(file string, text []byte) (docs []Document, faults []Fault) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, []Fault{yamlFault(file, text, err)}
	}
	for {
		var root yaml.Node
		err := loader.Load(&root)
		if errors.Is(err, io.EOF) {
			return docs, faults
		}
		if err != nil {
			return docs, append(faults, yamlFault(file, text, err))
		}
		for _, n := range tops(&root) {
			d, fault := yamlDocument(file, n)
			if fault != nil {
				faults = append(faults, *fault)
				continue
			}
			docs = append(docs, d)
		}
	}
}

// tops are the documents a root stands for.
func tops(root *yaml.Node) []*yaml.Node {
	if len(root.Content) == 0 {
		return nil
	}
	n := root.Content[0]
	switch {
	case n.Kind == yaml.SequenceNode:
		return n.Content
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return nil
	}
	return []*yaml.Node{n}
}

func yamlFault(file string, text []byte, err error) Fault {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return Fault{File: file, Message: "not YAML: " + err.Error(), Unreadable: true}
	}
	if column := tabBefore(text, load.Mark.Line); column > 0 {
		return Fault{File: file, Line: load.Mark.Line, Column: column, Message: "not YAML: a tab; YAML is indented with spaces", Unreadable: true}
	}
	message := "not YAML: " + load.Message
	if load.ContextMsg != "" {
		message += " " + load.ContextMsg
		if load.ContextMark.Line > 0 {
			message += fmt.Sprintf(" that began in line %d", load.ContextMark.Line)
		}
	}
	return Fault{File: file, Line: load.Mark.Line, Column: load.Mark.Column, Message: message, Unreadable: true}
}

// tabBefore is the column of the first tab that a line is indented with; 0: there is none.
func tabBefore(text []byte, line int) int {
	for range line - 1 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	for i, c := range text {
		if c == '\t' {
			return i + 1
		}
		if c != ' ' {
			break
		}
	}
	return 0
}

func yamlDocument(file string, n *yaml.Node) (Document, *Fault) {
	w := jsonWriter{places: map[string]place{}}
	w.value(n, "", 0)
	if w.fault != "" {
		return Document{}, &Fault{File: file, Line: w.at.line, Column: w.at.column, Message: w.fault, Unreadable: true}
	}
	return Document{File: file, Line: n.Line, JSON: w.b, at: func(pointer string) (int, int, bool) {
		p, ok := w.places[pointer]
		return p.line, p.column, ok
	}}, nil
}

type place struct{ line, column int }

// jsonWriter writes a YAML tree as JSON and notes where each value stands.
type jsonWriter struct {
	b      []byte
	places map[string]place
	nodes  int
	fault  string // the first thing JSON cannot say
	at     place
}

func (w *jsonWriter) fail(n *yaml.Node, format string, args ...any) {
	if w.fault == "" {
		w.fault, w.at = fmt.Sprintf(format, args...), place{n.Line, n.Column}
	}
}

func (w *jsonWriter) value(n *yaml.Node, pointer string, depth int) {
	if w.nodes++; w.nodes > maxNodes {
		w.fail(n, "the document is too large once its aliases are written out")
	}
	if depth > maxDepth {
		w.fail(n, "more than %d values stand within each other", maxDepth)
	}
	if w.fault != "" {
		return
	}
	if _, known := w.places[pointer]; !known {
		w.places[pointer] = place{n.Line, n.Column}
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.value(n.Alias, pointer, depth+1)
	case yaml.MappingNode:
		w.mapping(n, pointer, depth)
	case yaml.SequenceNode:
		w.b = append(w.b, '[')
		for i, c := range n.Content {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.value(c, pointer+"/"+strconv.Itoa(i), depth+1)
		}
		w.b = append(w.b, ']')
	case yaml.ScalarNode:
		w.scalar(n)
	default:
		w.fail(n, "not a value")
	}
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func (w *jsonWriter) mapping(n *yaml.Node, pointer string, depth int) {
	w.b = append(w.b, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			w.fail(key, "the name of a field must be a plain word")
			return
		}
		if key.ShortTag() == "!!merge" {
			w.fail(key, "merge keys (<<) are not supported; write the fields out")
			return
		}
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.quote(key.Value)
		w.b = append(w.b, ':')
		below := pointer + "/" + escapePointer.Replace(key.Value)
		// A name said twice is a fault where it is said again.
		w.places[below] = place{key.Line, key.Column}
		if value.Kind == yaml.ScalarNode {
			w.places[below] = place{value.Line, value.Column}
		}
		w.value(value, below, depth+1)
	}
	w.b = append(w.b, '}')
}

// octal is a number that YAML 1.1 takes for an octal one, and YAML 1.2 does not.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// scalar writes a scalar as the core schema of YAML 1.2 resolves it. What JSON
// has no word for, such as a date, stays the text it is.
func (w *jsonWriter) scalar(n *yaml.Node) {
	switch n.ShortTag() {
	case "!!null":
		w.b = append(w.b, "null"...)
	case "!!bool":
		w.b = strconv.AppendBool(w.b, strings.EqualFold(n.Value, "true"))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			w.b = append(w.b, n.Value...)
			return
		}
		if octal.MatchString(n.Value) {
			w.fail(n, "%.80s: readers of YAML do not agree on a number that begins with 0; leave the 0 away, or put a text in quotes", n.Value)
			return
		}
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			w.b = strconv.AppendInt(w.b, i, 10)
			return
		}
		w.quote(n.Value)
	default:
		w.quote(n.Value)
	}
}

func (w *jsonWriter) quote(s string) {
	b, err := json.Marshal(s)
	if err != nil {
		b = []byte(`""`) // a string always marshals
	}
	w.b = append(w.b, b...)
}
