package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// printPath prints what a JSONPath template, in kubectl's form, makes of the JSON of v.
// What a path names and v has not is printed as nothing.
func (a *console) printPath(v any, template string) error {
	path, err := readPath(template)
	if err != nil {
		return cli.Failed(cli.BadUsage, "-o jsonpath: %v", err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return err
	}
	if list, ok := doc.([]any); ok && itemsOf.MatchString(template) {
		doc = map[string]any{"items": list}
	}
	var out bytes.Buffer
	if err := path.Execute(&out, numbers(doc)); err != nil {
		return cli.Failed(cli.BadUsage, "-o jsonpath: %v", err)
	}
	if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = out.WriteTo(a.stdout)
	return err
}

// itemsOf begins a path that, as for kubectl, goes through the items of a list.
var itemsOf = regexp.MustCompile(`(?:^|[{ $@])\.items\b`)

// numbers makes numbers of what was decoded such that can be compared: whole ones, as
// log sequences are, or else floats.
func numbers(doc any) any {
	switch x := doc.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return doc
}

// readPath reads a template; one without braces is a path.
func readPath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	return path, path.Parse(template)
}
