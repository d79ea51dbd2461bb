package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// keywordKind says what stands under a keyword of JSON Schema.
type keywordKind uint8

const (
	plain       keywordKind = iota + 1 // a value
	subschema                          // a schema
	subschemas                         // an array of schemas
	schemaMap                          // an object of schemas
	reference                          // a pointer to a schema within this one
	pattern                            // a regular expression
	formatName                         // the name of a format
	patternsMap                        // an object of schemas whose keys are regular expressions
)

// keywords are those of draft 2020-12 that a constraint may use. Left out are
// the ones that give schemas names beyond the constraint: it stands alone.
var keywords = map[string]keywordKind{
	"title": plain, "description": plain, "default": plain, "deprecated": plain, "readOnly": plain, "writeOnly": plain, "examples": plain, "$comment": plain,
	"type": plain, "const": plain, "enum": plain,
	"multipleOf": plain, "maximum": plain, "exclusiveMaximum": plain, "minimum": plain, "exclusiveMinimum": plain,
	"maxLength": plain, "minLength": plain, "pattern": pattern, "format": formatName,
	"maxItems": plain, "minItems": plain, "uniqueItems": plain, "maxContains": plain, "minContains": plain,
	"maxProperties": plain, "minProperties": plain, "required": plain, "dependentRequired": plain,
	"contentEncoding": plain, "contentMediaType": plain, "contentSchema": subschema,
	"not": subschema, "if": subschema, "then": subschema, "else": subschema,
	"items": subschema, "contains": subschema, "additionalProperties": subschema, "propertyNames": subschema,
	"unevaluatedItems": subschema, "unevaluatedProperties": subschema,
	"allOf": subschemas, "anyOf": subschemas, "oneOf": subschemas, "prefixItems": subschemas,
	"properties": schemaMap, "dependentSchemas": schemaMap, "$defs": schemaMap, "patternProperties": patternsMap,
	"$ref": reference,
}

// formats are those that are checked; of another nothing would be.
var formats = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference",
	"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
}

const (
	draftURL = "https://json-schema.org/draft/2020-12/schema"
	// maxSchemaCost bounds a schema with every reference followed: validation
	// takes a step for each part of it, at each part of the value.
	maxSchemaCost = 10_000
	// maxSteps bounds one validation, which cannot be interrupted: the cost of
	// the schema times the size of the value. It is some 0.2 s at worst.
	maxSteps = 10_000_000
)

// schema is a constraint's schema, compiled.
type schema struct {
	*jsonschema.Schema
	cost  int
	asked map[string]any
	unmet atomic.Pointer[string] // see unmetAlone; nil: nobody has found out
}

// bytes is what keeping it takes, roughly.
func (s *schema) bytes() int { return s.cost * instructionBytes }

// inspector walks a schema before it is compiled.
type inspector struct {
	root  map[string]any
	depth int             // left
	steps int             // taken
	open  map[string]bool // references being followed
}

var errCostly = fmt.Errorf("the schema has more than %d parts once its references are followed", maxSchemaCost)

// cost checks a schema's keywords and adds up its parts.
func (in *inspector) cost(v any) (int, error) {
	object, ok := v.(map[string]any)
	if !ok {
		if _, ok := v.(bool); ok {
			return 1, nil
		}
		return 0, fmt.Errorf("is %s, not a schema", kindOf(v))
	}
	in.depth--
	defer func() { in.depth++ }()
	if in.depth < 0 {
		return 0, errTooDeep
	}
	if in.steps++; in.steps > 10*maxSchemaCost {
		return 0, errCostly
	}
	sum := 1
	for _, keyword := range sortedKeys(object) {
		n, err := in.keyword(keyword, object[keyword])
		if err != nil {
			return 0, below(keyword, err)
		}
		if sum += n; sum > maxSchemaCost {
			return 0, errCostly
		}
	}
	return sum, nil
}

func (in *inspector) keyword(keyword string, v any) (int, error) {
	switch keywords[keyword] {
	case plain:
		return parts(v), nil
	case subschema:
		return in.cost(v)
	case subschemas:
		list, _ := v.([]any)
		sum := 0
		for i, s := range list {
			n, err := in.cost(s)
			if err != nil {
				return 0, below(fmt.Sprint(i), err)
			}
			sum += n
		}
		return sum, nil
	case schemaMap:
		object, _ := v.(map[string]any)
		return in.each(object, keyword != "$defs")
	case patternsMap:
		object, _ := v.(map[string]any)
		sum, err := in.each(object, true)
		for expr := range object {
			if err == nil {
				var n int
				n, err = patternCost(expr)
				sum += n
			}
		}
		return sum, err
	case reference:
		return in.follow(v)
	case pattern:
		expr, _ := v.(string)
		return patternCost(expr)
	case formatName:
		if name, ok := v.(string); ok && !slices.Contains(formats, name) {
			return 0, fmt.Errorf("%q is no format that is checked; there are %s", name, strings.Join(formats, ", "))
		}
		return 1, nil
	}
	if keyword == "$schema" {
		if v == draftURL {
			return 0, nil
		}
		return 0, fmt.Errorf("is %v; constraints are of %s", v, draftURL)
	}
	return 0, errors.New("is no keyword of JSON Schema 2020-12 that a constraint may use")
}

// each adds up the schemas of an object; those in $defs count where they are
// referred to.
func (in *inspector) each(object map[string]any, counts bool) (int, error) {
	sum := 0
	for _, name := range sortedKeys(object) {
		n, err := in.cost(object[name])
		if err != nil {
			return 0, below(name, err)
		}
		if counts {
			sum += n
		}
	}
	return sum, nil
}

func (in *inspector) follow(v any) (int, error) {
	ref, _ := v.(string)
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return 0, fmt.Errorf("%q is not of the form #/$defs/name; a constraint refers to nothing outside itself, and not to the whole of itself", ref)
	}
	if in.open[ref] {
		return 0, fmt.Errorf("%s refers to itself", ref)
	}
	p, err := parsePath("/" + pointer)
	if err != nil {
		return 0, err
	}
	target, ok := p.in(any(in.root))
	if !ok {
		return 0, fmt.Errorf("%s is not there", ref)
	}
	in.open[ref] = true
	n, err := in.cost(target)
	delete(in.open, ref)
	return n, err
}

// parts counts the parts of a value.
func parts(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += parts(e)
		}
	case map[string]any:
		for _, e := range v {
			n += parts(e)
		}
	}
	return n
}

// nowhere loads no schema: what a constraint refers to is within it.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) { return nil, fmt.Errorf("%s is not loaded", url) }

// compileSchema compiles what is a schema and refuses what is none.
func compileSchema(source map[string]any, depth int) (*schema, error) {
	cost, err := (&inspector{root: source, depth: depth, open: map[string]bool{}}).cost(source)
	if err != nil {
		return nil, err
	}
	const url = "constraint:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.AssertContent()
	c.UseLoader(nowhere{})
	if err := c.AddResource(url, source); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		var invalid *jsonschema.SchemaValidationError
		if errors.As(err, &invalid) {
			err = invalid.Err
		}
		return nil, errors.New(faultsOf(err).reasons())
	}
	return &schema{Schema: compiled, cost: cost, asked: source}, nil
}

// broken says what of the value is not of the schema; nothing when all is. The error
// is that it cannot be found out in reasonable time.
func (s *schema) broken(v any, size int) (faults, error) {
	if s.cost*size > maxSteps {
		return faults{}, fmt.Errorf("checking this schema of %d parts against a payload of %d bytes takes too long", s.cost, size)
	}
	return faultsOf(s.Validate(v)), nil
}

// maxMessage is how many bytes are said of what is wrong.
const maxMessage = 500

// shortened is the beginning of a text that is longer than that, and says so.
func shortened(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// canonical is the text of a schema: equal schemas are compiled once.
func canonical(source any) (string, error) {
	text, err := AppendJSON(nil, source)
	return string(text), err
}
