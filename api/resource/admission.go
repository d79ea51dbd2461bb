package resource

import (
	"encoding/json"
	"time"
)

// AdmissionDraft is an admission policy as its author sends it.
type AdmissionDraft struct {
	Name          string            `json:"name"`
	Description   string            `json:"description,omitempty"`
	PolicyType    string            `json:"policy_type"`
	TenantID      string            `json:"tenant_id,omitempty"`
	UserID        string            `json:"user_id,omitempty"`
	ServiceType   string            `json:"service_type,omitempty"`
	LabelSelector map[string]string `json:"label_selector,omitzero"`
	Priority      int               `json:"priority"`
	Enabled       bool              `json:"enabled"`
	Mode          string            `json:"mode"`
	RegoCode      string            `json:"rego_code"`
	TestCases     []json.RawMessage `json:"test_cases,omitempty"`
}

// AdmissionChange replaces what an admission policy matches, its priority and
// its code; the rest stays unless it is given.
type AdmissionChange struct {
	Name          string            `json:"name,omitempty"`
	Description   string            `json:"description,omitempty"`
	PolicyType    string            `json:"policy_type,omitempty"`
	TenantID      string            `json:"tenant_id,omitempty"`
	UserID        string            `json:"user_id,omitempty"`
	ServiceType   string            `json:"service_type,omitempty"`
	LabelSelector map[string]string `json:"label_selector,omitzero"`
	Priority      int               `json:"priority,omitempty"`
	Enabled       bool              `json:"enabled,omitempty"`
	Mode          string            `json:"mode,omitempty"`
	RegoCode      string            `json:"rego_code"`
	TestCases     []json.RawMessage `json:"test_cases,omitempty"`
}

// AdmissionID names the admission policy that was made.
type AdmissionID struct {
	ID string `json:"id"`
}

// AdmissionPolicy is a registered admission policy.
type AdmissionPolicy struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description,omitempty"`
	PolicyType    string            `json:"policy_type"`
	TenantID      string            `json:"tenant_id,omitempty"`
	UserID        string            `json:"user_id,omitempty"`
	ServiceType   string            `json:"service_type,omitempty"`
	LabelSelector map[string]string `json:"label_selector,omitzero"`
	Priority      int               `json:"priority"`
	Enabled       bool              `json:"enabled"`
	Mode          string            `json:"mode"`
	RegoCode      string            `json:"rego_code"`
	TestCases     []json.RawMessage `json:"test_cases,omitempty"`
	Version       uint64            `json:"version"`
	CreatedAt     time.Time         `json:"created_at"`
	UpdatedAt     time.Time         `json:"updated_at"`
	CreatedBy     string            `json:"created_by"`
}

// Evaluation asks for a request to be admitted.
type Evaluation struct {
	RequestPayload json.RawMessage `json:"request_payload"`
	UserID         string          `json:"user_id,omitempty"`
	TenantID       string          `json:"tenant_id,omitempty"`
}

// Admitted is a request that was admitted.
type Admitted struct {
	RequestPayload  json.RawMessage `json:"request_payload"`
	ServiceProvider Provider        `json:"service_provider"`
	Status          string          `json:"status"`
	Explain         *Explanation    `json:"explain,omitempty"`
}

// Provider is the service provider that was chosen, and from what.
type Provider struct {
	Value       string              `json:"value"`
	Constraints ProviderConstraints `json:"constraints"`
}

// ProviderConstraints bound the choice of a provider.
type ProviderConstraints struct {
	AllowList []string `json:"allow_list,omitempty"`
	Patterns  []string `json:"patterns,omitempty"`
}

// Explanation says what each admission policy did.
type Explanation struct {
	SnapshotVersion uint64            `json:"snapshot_version"`
	Steps           []json.RawMessage `json:"steps"`
}

// Deciding is the admission policy that decided against a request.
type Deciding struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// AlphaPolicy is an admission policy as clients of v1alpha1 know it.
type AlphaPolicy struct {
	Path          string            `json:"path,omitempty"`
	ID            string            `json:"id,omitempty"`
	DisplayName   string            `json:"display_name"`
	Description   string            `json:"description,omitempty"`
	PolicyType    string            `json:"policy_type"`
	LabelSelector map[string]string `json:"label_selector,omitzero"`
	Priority      int               `json:"priority"`
	RegoCode      string            `json:"rego_code"`
	Enabled       bool              `json:"enabled"`
	CreateTime    time.Time         `json:"create_time"`
	UpdateTime    time.Time         `json:"update_time"`
}

// AlphaPolicies is a page of them.
type AlphaPolicies struct {
	Policies      []AlphaPolicy `json:"policies"`
	NextPageToken string        `json:"next_page_token,omitempty"`
}

// AlphaEvaluation asks for a service instance to be admitted.
type AlphaEvaluation struct {
	ServiceInstance AlphaInstance `json:"service_instance"`
}

// AlphaInstance is a service instance.
type AlphaInstance struct {
	Spec json.RawMessage `json:"spec"`
}

// AlphaAdmitted is a service instance that was admitted.
type AlphaAdmitted struct {
	EvaluatedServiceInstance AlphaInstance `json:"evaluated_service_instance"`
	SelectedProvider         string        `json:"selected_provider"`
	Status                   string        `json:"status"`
	Explain                  *Explanation  `json:"explain,omitempty"`
}

// AlphaHealth says that the API answers.
type AlphaHealth struct {
	Status string `json:"status"`
	Path   string `json:"path"`
}

// AlphaError is an error as clients of v1alpha1 know it.
type AlphaError struct {
	Type     string       `json:"type"`
	Status   int          `json:"status"`
	Title    string       `json:"title"`
	Detail   string       `json:"detail,omitempty"`
	Instance string       `json:"instance,omitempty"`
	Explain  *Explanation `json:"explain,omitempty"`
}
