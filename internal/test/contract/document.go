package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edictdev/edict/internal/test/gen"
)

// Document is the description that a plane of these sources serves, put together from the
// golden files that package api holds it against: so a test that needs the description
// alone is built without all that serves it.
func Document() ([]byte, error) {
	root, err := gen.ModuleRoot()
	if err != nil {
		return nil, err
	}
	golden := filepath.Join(root, "internal", "api", "testdata")
	doc, paths := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := read(filepath.Join(golden, "openapi.json"), &doc); err != nil {
		return nil, err
	}
	parts, err := filepath.Glob(filepath.Join(golden, "openapi-*.json"))
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := read(part, &paths); err != nil { // no path stands in two
			return nil, err
		}
	}
	if doc["paths"], err = json.Marshal(paths); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

func read(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}
