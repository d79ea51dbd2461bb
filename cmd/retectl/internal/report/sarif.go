package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	"github.com/edictdev/edict/internal/compiler/rete"
)

// The part of SARIF 2.1.0 that code scanning reads.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

func writeSARIF(w io.Writer, faults []rete.Fault) error {
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "retectl"}}, Results: []sarifResult{}}
	for _, label := range []string{rete.LabelSource, rete.LabelCompile} {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{label, sarifText{label}})
	}
	for _, r := range rete.Rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ruleID(r.Number, ""), sarifText{r.Label}})
	}
	for _, f := range faults {
		level := "error"
		if f.Warning {
			level = "warning"
		}
		at := sarifPhysical{Artifact: sarifArtifact{(&url.URL{Path: filepath.ToSlash(f.Path)}).String()}}
		if f.Line > 0 {
			at.Region = &sarifRegion{f.Line, max(f.Column, 1)}
		}
		run.Results = append(run.Results, sarifResult{ruleID(f.Rule, f.Label), level, sarifText{f.Message}, []sarifLocation{{at}}})
	}
	b, err := json.MarshalIndent(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

func ruleID(number, label string) string {
	if number == "" {
		return label
	}
	return "rule-" + number
}
