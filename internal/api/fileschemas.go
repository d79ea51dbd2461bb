package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api/openapi"
)

// schemaBase is what the schemas of files are named by; a copy of each lies in
// docs/schemas.
const schemaBase = "https://raw.githubusercontent.com/edictdev/edict/main/docs/schemas/edict-"

// FileKinds are the kinds of files that authors write.
var FileKinds = []string{"policy", "node", "admission"}

// FileSchema is the JSON Schema of a kind of files, for editors: of one document of
// such a file. It is made of the types that the API reads.
func FileSchema(kind string) ([]byte, error) {
	types := openapi.NewTypes(hints())
	var root *schema
	switch kind {
	case "policy":
		root = types.Of(resource.Draft{})
	case "node":
		root = types.Of(resource.NodeLine{})
	default:
		root = types.Of(resource.AdmissionDraft{})
		inFiles(types.Schemas()["AdmissionDraft"])
	}
	doc := struct {
		Dialect string             `json:"$schema"`
		ID      string             `json:"$id"`
		Title   string             `json:"title"`
		Ref     string             `json:"$ref"`
		Defs    map[string]*schema `json:"$defs"`
	}{"https://json-schema.org/draft/2020-12/schema", schemaBase + kind + ".schema.json", "Edict: a " + kind, root.Ref, types.Schemas()}
	if kind != "node" {
		doc.Title += " file"
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(out.Bytes(), []byte("#/components/schemas/"), []byte("#/$defs/")), nil
}

// inFiles has a file name a file with the code in the place of the code.
func inFiles(s *schema) {
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == "rego_code" })
	s.Properties = append(s.Properties, openapi.Property{Name: "rego_file", Schema: &schema{Type: "string", Description: "The file that has the code, in place of rego_code."}})
}

// withFileSchemas serves these schemas, to anybody, and what else is asked for by next.
// They are files and no operation, so the description of the API is without them.
func withFileSchemas(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, is := strings.CutPrefix(r.URL.Path, "/schemas/")
		kind, ends := strings.CutSuffix(name, ".schema.json")
		if !is || !ends || !slices.Contains(FileKinds, kind) || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		b, err := FileSchema(kind)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", mediaJSON)
		h.Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(b) // the client may be gone
	})
}
