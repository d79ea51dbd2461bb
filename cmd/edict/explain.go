package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
)

func (a *app) explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain [KIND[.FIELD...]]", Short: "Say what the fields of files are for", Args: cli.Args(0, 1),
		Long: `Say what the fields of files are for: of policies, nodes and admission policies. Without
a kind, the kinds. No plane is asked. With -o json, print the JSON Schema of the kind, for editors; a plane
serves it at /schemas/KIND.schema.json.`,
		Example: `  edict explain policy
  edict explain policy.rules.ports
  edict explain policy -o json > policy.schema.json`,
		ValidArgs: api.FileKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.explainKinds()
			}
			path := strings.Split(args[0], ".")
			if !slices.Contains(api.FileKinds, path[0]) {
				return cli.Usage(cmd, "%.80q: want one of %s", path[0], strings.Join(api.FileKinds, ", "))
			}
			text, err := api.FileSchema(path[0])
			if err != nil {
				return err
			}
			return a.explainField(text, path)
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// explainKinds says which kinds of files there are.
func (a *console) explainKinds() error {
	return a.print(api.FileKinds, func(w io.Writer) {
		rows := make([][]string, len(api.FileKinds))
		for i, kind := range api.FileKinds {
			rows[i] = []string{kind, "edict explain " + kind}
		}
		columns(w, []string{"kind", "its fields"}, rows)
	})
}

// fieldSchema is a JSON Schema, as far as those of files go.
type fieldSchema struct {
	Ref         string                  `json:"$ref"`
	Defs        map[string]*fieldSchema `json:"$defs"`
	Description string                  `json:"description"`
	Type        any                     `json:"type"`
	Format      string                  `json:"format"`
	Pattern     string                  `json:"pattern"`
	Enum        []any                   `json:"enum"`
	Minimum     *int                    `json:"minimum"`
	Maximum     *int                    `json:"maximum"`
	Default     any                     `json:"default"`
	Items       *fieldSchema            `json:"items"`
	Properties  map[string]*fieldSchema `json:"properties"`
	Required    []string                `json:"required"`
	AllOf       []*fieldSchema          `json:"allOf"`
}

func (a *console) explainField(text []byte, path []string) error {
	if a.format == formatJSON && len(path) == 1 {
		_, err := io.Copy(a.stdout, bytes.NewReader(text))
		return err
	}
	var root fieldSchema
	if err := json.Unmarshal(text, &root); err != nil {
		return err
	}
	at := root.resolved(root.Defs)
	for i, name := range path[1:] {
		at = at.element(root.Defs)
		next, ok := at.Properties[name]
		if !ok {
			return cli.Failed(cli.NotFound, "%s has no field %.80q; edict explain %[1]s lists them", strings.Join(path[:i+1], "."), name)
		}
		at = next.resolved(root.Defs)
	}
	return a.print(at, func(w io.Writer) { at.write(w, strings.Join(path, "."), root.Defs) })
}

// resolved is s with what it refers to.
func (s *fieldSchema) resolved(defs map[string]*fieldSchema) *fieldSchema {
	out := *s
	for _, ref := range append([]string{s.Ref}, refs(s.AllOf)...) {
		of, ok := defs[strings.TrimPrefix(ref, "#/$defs/")]
		if !ok {
			continue
		}
		said := out.Description
		out = *of.resolved(defs)
		if said != "" {
			out.Description = said
		}
	}
	return &out
}

func refs(all []*fieldSchema) (list []string) {
	for _, s := range all {
		list = append(list, s.Ref)
	}
	return list
}

// element is what a list has, and everything else itself.
func (s *fieldSchema) element(defs map[string]*fieldSchema) *fieldSchema {
	if s.Items != nil {
		return s.Items.resolved(defs)
	}
	return s
}

func (s *fieldSchema) typeText() string {
	text := "object"
	switch t := s.Type.(type) {
	case string:
		text = t
	case []any:
		text = fmt.Sprint(t[0])
	}
	if text == "array" {
		text = "list"
	}
	return text
}

// bounds is what a value may be.
func (s *fieldSchema) bounds() string {
	var parts []string
	if len(s.Enum) > 0 {
		texts := make([]string, len(s.Enum))
		for i, x := range s.Enum {
			texts[i] = fmt.Sprint(x)
		}
		parts = append(parts, "one of "+strings.Join(texts, ", "))
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum))
	}
	if s.Format != "" {
		parts = append(parts, s.Format)
	}
	return strings.Join(parts, "; ")
}

func (s *fieldSchema) write(w io.Writer, path string, defs map[string]*fieldSchema) {
	fmt.Fprintf(w, "Field:   %s\nType:    %s\n", path, s.typeText())
	if b := s.bounds(); b != "" {
		fmt.Fprintf(w, "Values:  %s\n", b)
	}
	if s.Description != "" {
		fmt.Fprintf(w, "\n%s\n", s.Description)
	}
	of := s.element(defs)
	var rows [][]string
	for name, p := range of.Properties {
		p := p.resolved(defs)
		needed := "-"
		if slices.Contains(of.Required, name) {
			needed = "yes"
		}
		rows = append(rows, []string{name, p.typeText(), needed, strings.TrimSpace(p.bounds() + "  " + p.Description)})
	}
	if len(rows) > 0 {
		slices.SortFunc(rows, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
		fmt.Fprintln(w)
		columns(w, []string{"field", "type", "required", "meaning"}, rows)
	}
}
