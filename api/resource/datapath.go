package resource

import "github.com/google/uuid"

// Datapath is a node's table: what it looks up to allow, deny or redirect a
// flow. Identities and Entries are verbatim what the fingerprint is of.
type Datapath struct {
	NodeID      string     `json:"node_id"`
	Version     uint64     `json:"version"` // the log sequence at which it was right
	Fingerprint string     `json:"fingerprint"`
	Identities  []Identity `json:"identities"`
	Entries     []Entry    `json:"entries"`
	Warnings    []Fault    `json:"warnings,omitempty"`
	Refused     *Refused   `json:"refused,omitempty"`
}

// Refused says that the facts ask for a table that cannot be, so that an older
// one stays.
type Refused struct {
	NodeID string `json:"node_id"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// AsOf is the log sequence of the facts that the older one is made of; none: the
	// node had none.
	AsOf uint64 `json:"as_of,omitempty"`
}

// Identity is a kind of peer: all peers of one are answered alike. One without
// members is a block of addresses that no node of the project owns.
type Identity struct {
	ID      uint32            `json:"id"`
	Labels  map[string]string `json:"labels"`
	CIDRs   []string          `json:"cidrs"`
	Members []Member          `json:"members"`
}

// Member is a node of an identity.
type Member struct {
	NodeID    string   `json:"node_id"`
	Addresses []string `json:"addresses"`
}

// Entry is a line of a table.
type Entry struct {
	Direction  string   `json:"direction"`
	Identity   uint32   `json:"identity"`
	Protocol   string   `json:"protocol"`
	Port       uint16   `json:"port"`
	Prefix     uint8    `json:"prefix"`
	Verdict    string   `json:"verdict"`
	Precedence uint32   `json:"precedence"`
	ProxyPort  uint16   `json:"proxy_port,omitempty"`
	Auth       string   `json:"auth,omitempty"`
	Rule       *RuleRef `json:"rule"`
}

// RuleRef names a rule by where its author wrote it.
type RuleRef struct {
	Policy   uuid.UUID `json:"policy"`
	Revision uuid.UUID `json:"revision"`
	Index    int       `json:"index"`
}

// FlowVerdict is what happens to one flow, and why.
type FlowVerdict struct {
	Verdict    string       `json:"verdict"`
	Rule       *RuleRef     `json:"rule"`
	Reason     string       `json:"reason,omitempty"` // where no rule decided
	Considered []Considered `json:"considered"`
	Entry      *Entry       `json:"entry"`
	Refused    *Refused     `json:"refused,omitempty"`
}

// Considered is a rule that was asked, the one that decided last.
type Considered struct {
	RuleRef
	Matched bool   `json:"matched"`
	Reason  string `json:"reason"`
}
