package rete_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

var update = flag.Bool("update", false, "write docs/schemas anew")

func TestThePublishedSchemasAreThoseOfTheTypes(t *testing.T) {
	gen.Unraced()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	dir := filepath.Join(root, "docs", "schemas")
	all := rete.Schemas()
	if *update {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range all {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
	}
	published, err := filepath.Glob(filepath.Join(dir, "*.schema.json"))
	require.NoError(t, err)
	// Those of files that edict reads begin with its name; they are the API's.
	published = slices.DeleteFunc(published, func(file string) bool { return strings.HasPrefix(filepath.Base(file), "edict-") })
	require.Len(t, published, len(all))
	for name, want := range all {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "write it anew: go test ./internal/compiler/rete -run Schemas -update")
		compiledSchema(t, name)
	}
}

var compiledSchemas = map[string]*jsonschema.Schema{}

func compiledSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	if s := compiledSchemas[name]; s != nil {
		return s
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(rete.Schemas()[name]))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(name, doc))
	s, err := c.Compile(name)
	require.NoError(t, err)
	compiledSchemas[name] = s
	return s
}

// TestTheSchemaAndTheReaderAgree holds rule 1 against its word: what the reader
// refuses does not match the schema, and what matches it not breaks a rule, over every
// mutation of the example.
func TestTheSchemaAndTheReaderAgree(t *testing.T) {
	gen.Unraced()
	schema := compiledSchema(t, "file.schema.json")
	example := reterepo.Example()
	agree := func(file string, repo fstest.MapFS) {
		var doc any
		require.NoError(t, yaml.Unmarshal(repo[file].Data, &doc))
		_, faults := rete.Load(repo, []string{file})
		refused := slices.ContainsFunc(faults, func(f rete.Fault) bool {
			return f.Rule == "1" || f.Rule == "13" && strings.Contains(f.Message, "unknown key")
		})
		err := schema.Validate(doc)
		if refused {
			require.Error(t, err, "%s\nreader: %v", repo[file].Data, faults)
		}
		if err != nil && !refused {
			require.NotEmpty(t, brokenRules(repo), "%s\nschema: %v", repo[file].Data, err)
		}
	}
	words := []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "word"},
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "10.0.0.1:80"},
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "10.0.0.1:0"},
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: ""},
		{Kind: yaml.ScalarNode, Tag: "!!int", Value: "7"},
		{Kind: yaml.ScalarNode, Tag: "!!int", Value: "-7"},
		{Kind: yaml.ScalarNode, Tag: "!!float", Value: "7.5"},
		{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
		{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"},
		{Kind: yaml.SequenceNode},
		{Kind: yaml.MappingNode},
	}
	for _, file := range slices.Sorted(maps.Keys(example)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		agree(file, example)
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(example[file].Data, &root))
		fields := fieldsOf(file, "", &root)
		for i := 0; i < len(fields); i++ {
			agree(file, mutated(example, file, i, func(f field) { f.drop() }))
			for _, w := range words {
				agree(file, mutated(example, file, i, func(f field) {
					style := yaml.Style(0)
					if w.Tag == "!!str" {
						style = yaml.DoubleQuotedStyle
					}
					*f.node = yaml.Node{Kind: w.Kind, Tag: w.Tag, Value: w.Value, Style: style}
				}))
			}
		}
	}
}
