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

// AdmissionChange replaces an admission policy: what is absent has its default,
// and what never changes may be absent. What the plane says of a policy may be
// there, so that what was read can be sent, and is not read.
type AdmissionChange struct {
	ID            string            `json:"id,omitempty" doc:"Its id, if it is given."`
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
	Version       uint64            `json:"version,omitempty" doc:"Not read: If-Match names a version."`
	CreatedAt     *time.Time        `json:"created_at,omitempty" doc:"Not read."`
	UpdatedAt     *time.Time        `json:"updated_at,omitempty" doc:"Not read."`
	CreatedBy     string            `json:"created_by,omitempty" doc:"Not read."`
	Warnings      []Fault           `json:"warnings,omitempty" doc:"Not read."`
}

// AdmissionID names the admission policy that was made.
type AdmissionID struct {
	ID       string  `json:"id" doc:"Its id."`
	Warnings []Fault `json:"warnings,omitempty" doc:"What is wrong with the policy though it is taken; absent when nothing is."`
}

// AdmissionPolicy is a registered admission policy.
type AdmissionPolicy struct {
	ID            string            `json:"id" doc:"Its id, a DNS label; a UUID when it was made here."`
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
	Version       uint64            `json:"version" doc:"The log sequence of its last change; 0 in a dry run."`
	CreatedAt     time.Time         `json:"created_at" doc:"When it was made, by the log's clock."`
	UpdatedAt     time.Time         `json:"updated_at" doc:"When it changed last, by the log's clock."`
	CreatedBy     string            `json:"created_by" doc:"Who wrote it as it is."`
	Warnings      []Fault           `json:"warnings,omitempty" doc:"What is wrong with the policy though it is taken; absent when nothing is."`
}

// Evaluation asks for a request to be admitted.
type Evaluation struct {
	RequestPayload json.RawMessage `json:"request_payload" doc:"The payload. Its service_type and metadata.labels choose the policies."`
	UserID         string          `json:"user_id,omitempty" doc:"Who asks."`
	TenantID       string          `json:"tenant_id,omitempty" doc:"The tenant of who asks."`
}

// Admitted is a request that was admitted.
type Admitted struct {
	RequestPayload  json.RawMessage `json:"request_payload" doc:"The payload as the policies left it."`
	ServiceProvider Provider        `json:"service_provider" doc:"The provider they chose, and from what."`
	Status          string          `json:"status"`
	Explain         *Explanation    `json:"explain,omitempty" doc:"What each policy did, when that was asked for."`
}

// Provider is the service provider that was chosen, and from what.
type Provider struct {
	Value       string              `json:"value" doc:"Its name; empty when none was chosen."`
	Constraints ProviderConstraints `json:"constraints" doc:"What bounds the choice."`
}

// ProviderConstraints bound the choice of a provider.
type ProviderConstraints struct {
	AllowList []string `json:"allow_list,omitempty" doc:"It is one of these."`
	Patterns  []string `json:"patterns,omitempty" doc:"It matches all of these (RE2)."`
}

// Explanation says what each admission policy did.
type Explanation struct {
	SnapshotVersion uint64            `json:"snapshot_version" doc:"The version of the set of policies: the log sequence of its last change."`
	Steps           []json.RawMessage `json:"steps" doc:"Every policy in the order of the chain: whether it matched or why not, its decision, its constraints, its patch as a diff, its provider and its time."`
}

// Deciding is the admission policy that decided against a request.
type Deciding struct {
	ID   string `json:"id" doc:"Its id."`
	Name string `json:"name" doc:"Its name."`
}

// AlphaPolicy is an admission policy as clients of v1alpha1 know it.
type AlphaPolicy struct {
	Path          string            `json:"path,omitempty" doc:"policies/ and the id."`
	ID            string            `json:"id,omitempty" doc:"The id. In a request only the query gives it."`
	DisplayName   string            `json:"display_name" doc:"Its name, unique per policy_type."`
	Description   string            `json:"description,omitempty" doc:"What it is for."`
	PolicyType    string            `json:"policy_type" doc:"The level; it never changes."`
	LabelSelector map[string]string `json:"label_selector,omitzero" doc:"Labels of the requests it judges; all must be equal. The label service_type is the request's service type."`
	Priority      int               `json:"priority" doc:"A lower number runs first, unique per policy_type."`
	RegoCode      string            `json:"rego_code" doc:"Its code, Rego v1."`
	Enabled       bool              `json:"enabled" doc:"Whether it judges."`
	CreateTime    time.Time         `json:"create_time" doc:"When it was made, by the log's clock."`
	UpdateTime    time.Time         `json:"update_time" doc:"When it changed last, by the log's clock."`
}

// AlphaPolicies is a page of them.
type AlphaPolicies struct {
	Policies      []AlphaPolicy `json:"policies" doc:"Policies, in the order that was asked for."`
	NextPageToken string        `json:"next_page_token,omitempty" doc:"The page_token of the next page; absent on the last."`
}

// AlphaEvaluation asks for a service instance to be admitted.
type AlphaEvaluation struct {
	ServiceInstance AlphaInstance `json:"service_instance" doc:"The service instance."`
}

// AlphaInstance is a service instance.
type AlphaInstance struct {
	Spec json.RawMessage `json:"spec" doc:"Its specification. Its service_type and metadata.labels choose the policies."`
}

// AlphaAdmitted is a service instance that was admitted.
type AlphaAdmitted struct {
	EvaluatedServiceInstance AlphaInstance `json:"evaluated_service_instance" doc:"The instance as the policies left it."`
	SelectedProvider         string        `json:"selected_provider" doc:"The provider they chose; empty when none."`
	Status                   string        `json:"status"`
	Explain                  *Explanation  `json:"explain,omitempty" doc:"What each policy did, when that was asked for."`
}

// AlphaHealth says that the API answers.
type AlphaHealth struct {
	Status string `json:"status" doc:"ok."`
	Path   string `json:"path" doc:"What was asked."`
}

// AlphaError is an error as clients of v1alpha1 know it.
type AlphaError struct {
	Type     string       `json:"type" doc:"The kind of error, for programs; about:blank for an evaluation."`
	Status   int          `json:"status" doc:"The HTTP status."`
	Title    string       `json:"title" doc:"The kind of error in words. Of an evaluation it names the policy."`
	Detail   string       `json:"detail,omitempty" doc:"What went wrong this time."`
	Instance string       `json:"instance,omitempty" doc:"Not used."`
	Explain  *Explanation `json:"explain,omitempty" doc:"What each policy did, when that was asked for."`
}
