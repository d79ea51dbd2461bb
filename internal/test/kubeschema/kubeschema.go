// Package kubeschema makes JSON Schemas of Kubernetes' kinds, for tools that judge
// manifests: of the OpenAPI documents that module k8s.io/kubernetes ships, and of the
// CustomResourceDefinitions of other modules. Nothing is fetched but the modules.
//
// The schemas are strict: a field that a kind does not have is a fault.
package kubeschema

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Modules that the schemas come from, each at the version that is judged by.
const (
	kubernetes = "k8s.io/kubernetes@v1.37.2"
	operator   = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// Location is how kubeconform finds a schema below a directory that Write filled.
const Location = "{{.ResourceKind}}{{.KindSuffix}}.json"

// Write writes the schemas of kinds into dir, by group, such as "apps/v1" or "v1", and
// those of the Prometheus operator.
func Write(dir string, groups map[string][]string) error {
	root, err := Module(kubernetes)
	if err != nil {
		return err
	}
	for g, kinds := range groups {
		name := "apis__" + strings.ReplaceAll(g, "/", "__")
		if !strings.Contains(g, "/") {
			name = "api__" + g
		}
		text, err := os.ReadFile(filepath.Join(root, "api", "openapi-spec", "v3", name+"_openapi.json"))
		if err != nil {
			return err
		}
		if err := writeGroup(dir, text, kinds); err != nil {
			return fmt.Errorf("schemas of %s: %w", g, err)
		}
	}
	if root, err = Module(operator); err != nil {
		return err
	}
	crds, err := filepath.Glob(filepath.Join(root, "example", "prometheus-operator-crd", "*.yaml"))
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := writeCustom(dir, crd); err != nil {
			return err
		}
	}
	return nil
}

// Module is the directory of a module at a version, which is downloaded where it is
// not in the module cache.
func Module(at string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", at)
	cmd.Dir = os.TempDir() // no go.mod of ours says anything of it
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if json.Unmarshal(out, &got) == nil && got.Error != "" {
		return "", fmt.Errorf("module %s: %s", at, got.Error)
	}
	if err != nil {
		return "", fmt.Errorf("module %s: %w", at, err)
	}
	return got.Dir, nil
}

type schema = map[string]any

// writeGroup writes kinds of an OpenAPI document, each with all that it may refer to.
func writeGroup(dir string, text []byte, kinds []string) error {
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	for _, s := range doc.Components.Schemas {
		strict(s)
	}
	for name, s := range doc.Components.Schemas {
		names, _ := s["x-kubernetes-group-version-kind"].([]any)
		for _, k := range names {
			of := k.(schema)
			group, version, kind := of["group"].(string), of["version"].(string), of["kind"].(string)
			if !slices.Contains(kinds, kind) {
				continue
			}
			whole := schema{"$ref": "#/definitions/" + name, "definitions": doc.Components.Schemas}
			if err := write(dir, group, version, kind, whole); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeCustom writes the kind of a CustomResourceDefinition, at each version.
func writeCustom(dir, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					Whole schema `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, v := range crd.Spec.Versions {
		strict(v.Schema.Whole)
		if err := write(dir, crd.Spec.Group, v.Name, crd.Spec.Names.Kind, v.Schema.Whole); err != nil {
			return err
		}
	}
	return nil
}

// write names a schema as kubeconform asks for it: statefulset-apps-v1.json.
func write(dir, group, version, kind string, s schema) error {
	first, _, _ := strings.Cut(group, ".")
	parts := []string{kind, first, version}
	if first == "" {
		parts = []string{kind, version}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, strings.ToLower(strings.Join(parts, "-"))+".json"), text, 0o644)
}

// strict closes the objects of a schema, and has its references lead to definitions.
func strict(at any) {
	switch at := at.(type) {
	case []any:
		for _, x := range at {
			strict(x)
		}
	case schema:
		_, fields := at["properties"].(schema)
		_, more := at["additionalProperties"]
		if open := at["x-kubernetes-preserve-unknown-fields"] == true; fields && !more && !open {
			at["additionalProperties"] = false
		}
		if ref, ok := at["$ref"].(string); ok {
			at["$ref"] = strings.Replace(ref, "#/components/schemas/", "#/definitions/", 1)
		}
		for _, x := range at {
			strict(x)
		}
	}
}
