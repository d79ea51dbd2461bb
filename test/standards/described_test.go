package standards_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// described is docs/asyncapi.yaml, and what of it was found in real messages.
type described struct {
	t        *testing.T
	raw      any
	compiler *jsonschema.Compiler
	doc      asyncAPI
	seen     map[string]bool // "channel message", and "schema.member"
}

// asyncAPI is what is read of the document beside its schemas.
type asyncAPI struct {
	Channels map[string]struct {
		Address  string                    `json:"address"`
		Messages map[string]map[string]any `json:"messages"`
	} `json:"channels"`
	Operations map[string]struct {
		Channel map[string]string `json:"channel"`
	} `json:"operations"`
	Components struct {
		Parameters    map[string]asyncSchema  `json:"parameters"`
		Messages      map[string]asyncMessage `json:"messages"`
		MessageTraits map[string]asyncMessage `json:"messageTraits"`
		Schemas       map[string]asyncSchema  `json:"schemas"`
	} `json:"components"`
}

type asyncMessage struct {
	ContentType string              `json:"contentType"`
	Headers     *asyncSchema        `json:"headers"`
	Traits      []map[string]string `json:"traits"`
}

type asyncSchema struct {
	Ref        string                 `json:"$ref"`
	Properties map[string]asyncSchema `json:"properties"`
	Items      *asyncSchema           `json:"items"`
	Enum       []string               `json:"enum"`
}

const asyncURL = "edict:asyncapi.json"

func describe(t *testing.T) *described {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "asyncapi.yaml"))
	require.NoError(t, err)
	var of any
	require.NoError(t, yaml.Unmarshal(text, &of))
	text, err = json.Marshal(of)
	require.NoError(t, err)
	d := &described{t: t, seen: map[string]bool{}, compiler: jsonschema.NewCompiler()}
	require.NoError(t, json.Unmarshal(text, &d.doc))
	d.raw, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	for _, s := range d.raw.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		closed(s)
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	require.NoError(t, d.compiler.AddResource(asyncURL, d.raw))
	return d
}

// closed has every schema that names members refuse others, unless it says that there may
// be some: a client may be sent more by a later release, and this release says all.
func closed(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, names := s["properties"].(map[string]any); names && s["additionalProperties"] == nil && s["type"] != nil {
			s["additionalProperties"] = false
		}
		for _, part := range s {
			closed(part)
		}
	case []any:
		for _, part := range s {
			closed(part)
		}
	}
}

// check holds a message against the document: its subject is of one channel, which has
// messages of that name, and this is one.
func (d *described) check(name, subject string, header map[string][]string, body []byte) {
	d.t.Helper()
	channel := d.channel(subject)
	require.Contains(d.t, d.doc.Channels[channel].Messages, name, "messages of channel %s, subject %s", channel, subject)
	d.checkHeader(name, header)
	at := "/components/messages/" + name + "/payload"
	if d.doc.Components.Messages[name].ContentType != "" {
		require.NoError(d.t, d.schema(at).Validate(string(body)), "%s on %s", name, subject)
	} else {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		require.NoError(d.t, err, "%s on %s", name, subject)
		require.NoError(d.t, d.schema(at).Validate(value), "%s on %s: %s", name, subject, body)
		d.note(d.payload(name), "", value)
	}
	d.seen[channel+" "+name] = true
}

// channel is that of a subject; of several the one that leaves least open.
func (d *described) channel(subject string) string {
	d.t.Helper()
	var found []string
	for name, c := range d.doc.Channels {
		form := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(c.Address), `[^.]+`)
		if regexp.MustCompile("^" + form + "$").MatchString(subject) {
			found = append(found, name)
		}
	}
	require.NotEmpty(d.t, found, "no channel has the subject %s", subject)
	return slices.MinFunc(found, func(a, b string) int {
		return strings.Count(d.doc.Channels[a].Address, "{") - strings.Count(d.doc.Channels[b].Address, "{")
	})
}

// checkHeader holds headers against the schemas of a message and of its traits. Each must
// be named there, but for those that the server reads.
func (d *described) checkHeader(name string, header map[string][]string) {
	d.t.Helper()
	values := map[string]any{}
	for k, v := range header {
		if !strings.HasPrefix(k, "Nats-") || k == "Nats-Msg-Id" {
			values[k] = v[0]
		}
	}
	m, named := d.doc.Components.Messages[name], map[string]bool{}
	hold := func(s *asyncSchema, at string) {
		if s == nil {
			return
		}
		require.NoError(d.t, d.schema(at+"/headers").Validate(values), "headers of %s: %v", name, values)
		for k := range s.Properties {
			named[k] = true
		}
	}
	hold(m.Headers, "/components/messages/"+name)
	for _, trait := range m.Traits {
		of := strings.TrimPrefix(trait["$ref"], "#/components/messageTraits/")
		hold(d.doc.Components.MessageTraits[of].Headers, "/components/messageTraits/"+of)
	}
	for k := range values {
		require.True(d.t, named[k], "header %s of %s is not described", k, name)
	}
}

func (d *described) schema(at string) *jsonschema.Schema {
	d.t.Helper()
	s, err := d.compiler.Compile(asyncURL + "#" + at)
	require.NoError(d.t, err)
	return s
}

// payload is the name of the schema of a message's payload; empty: it has none of its own.
func (d *described) payload(name string) string {
	m := d.raw.(map[string]any)["components"].(map[string]any)["messages"].(map[string]any)[name].(map[string]any)
	ref, _ := m["payload"].(map[string]any)["$ref"].(string)
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// note writes down which members of a named schema a value has.
func (d *described) note(name, at string, value any) {
	s := d.doc.Components.Schemas[name]
	d.noteIn(s, name+at, value)
}

func (d *described) noteIn(s asyncSchema, at string, value any) {
	if s.Ref != "" {
		at = strings.TrimPrefix(s.Ref, "#/components/schemas/")
		s = d.doc.Components.Schemas[at]
	}
	switch v := value.(type) {
	case map[string]any:
		for k, member := range v {
			d.seen[at+"."+k] = true
			d.noteIn(s.Properties[k], at+"."+k, member)
		}
	case []any:
		for _, item := range v {
			if s.Items != nil {
				d.noteIn(*s.Items, at, item)
			}
		}
	}
}

// unseen is what the document has and no message had: messages of channels, and members
// of the schemas.
func (d *described) unseen() (missing []string) {
	for name, c := range d.doc.Channels {
		for m := range maps.Keys(c.Messages) {
			if !d.seen[name+" "+m] {
				missing = append(missing, name+" "+m)
			}
		}
	}
	for name, s := range d.doc.Components.Schemas {
		if s.Items != nil {
			s = *s.Items
		}
		for k := range s.Properties {
			if !d.seen[name+"."+k] {
				missing = append(missing, name+"."+k)
			}
		}
	}
	slices.Sort(missing)
	return missing
}
