package admission

// Test is a case that a policy carries: it must pass before the policy goes
// live. The policy is evaluated alone, whatever it selects.
type Test struct {
	Name    string  `json:"name" yaml:"name"`
	Request Request `json:"-" yaml:"-"`
	// Status is APPROVED or MODIFIED, or an [Outcome] of a chain that ends:
	// rejected, conflict, error, timeout.
	Status string `json:"status" yaml:"status"`
	// Payload, if set, is the payload that must come out.
	Payload map[string]any `json:"request_payload,omitempty" yaml:"request_payload,omitempty"`
	// Provider, if set, is the provider that must be chosen.
	Provider string `json:"service_provider,omitempty" yaml:"service_provider,omitempty"`
}
