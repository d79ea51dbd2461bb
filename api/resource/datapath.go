package resource

import "github.com/google/uuid"

// Datapath is a node's table: what it looks up to allow, deny or redirect a
// flow. Identities and Entries are verbatim what the fingerprint is of.
type Datapath struct {
	NodeID      string     `json:"node_id"`
	Version     uint64     `json:"version" doc:"The log sequence at which the table was read. It is not part of the ETag."` // the log sequence at which it was right
	Fingerprint string     `json:"fingerprint" doc:"SHA-256, in base64, of the bytes {\"identities\":…,\"entries\":…} as they stand here."`
	Identities  []Identity `json:"identities" doc:"The kinds of peer that the entries tell apart, by number."`
	Entries     []Entry    `json:"entries" doc:"By direction, identity, protocol and port."`
	Warnings    []Fault    `json:"warnings,omitempty" doc:"What was assumed, a fault a policy; absent when nothing was."`
	Refused     *Refused   `json:"refused,omitempty" doc:"Why this is an older table than the facts ask for; absent when it is not."`
}

// Refused says that the facts ask for a table that cannot be, so that an older
// one stays.
type Refused struct {
	NodeID string `json:"node_id"`
	Code   string `json:"code" doc:"Which limit it meets."`
	Detail string `json:"detail" doc:"How far it goes beyond, and what to do."`
	// AsOf is the log sequence of the facts that the older one is made of; none: the
	// node had none.
	AsOf uint64 `json:"as_of,omitempty" doc:"The log sequence of the facts that the last good table is made of; absent when the node had none."`
}

// Identity is a kind of peer: all peers of one are answered alike. One without
// members is a block of addresses that no node of the project owns.
type Identity struct {
	ID      uint32            `json:"id" doc:"Its number in this table, from 1. Another table may number it otherwise."`
	Labels  map[string]string `json:"labels" doc:"The labels that its members have."`
	CIDRs   []string          `json:"cidrs" doc:"The CIDRs of rules that hold an address of each member; or the block's own."`
	Members []Member          `json:"members" doc:"The nodes of the project that it is, by id."`
}

// Member is a node of an identity.
type Member struct {
	NodeID    string   `json:"node_id"`
	Addresses []string `json:"addresses"`
}

// Entry is a line of a table.
type Entry struct {
	Direction  string   `json:"direction"`
	Identity   uint32   `json:"identity" doc:"The peer's identity; 0: any peer."`
	Protocol   string   `json:"protocol" doc:"The flow's protocol."`
	Port       uint16   `json:"port" doc:"The first port of the prefix."`
	Prefix     uint8    `json:"prefix" doc:"How many leading bits of the port count; 0: every port."`
	Verdict    string   `json:"verdict"`
	Precedence uint32   `json:"precedence" doc:"Compared between the entry of a peer's identity and that of any."`
	ProxyPort  uint16   `json:"proxy_port,omitempty" doc:"Of a redirect: the port of the node's proxy."`
	Auth       string   `json:"auth,omitempty" doc:"Whether both ends must prove who they are; absent when not."`
	Rule       *RuleRef `json:"rule" doc:"The rule that decided; null where the default did."`
}

// RuleRef names a rule by where its author wrote it.
type RuleRef struct {
	Policy   uuid.UUID `json:"policy" doc:"The id of the policy."`
	Revision uuid.UUID `json:"revision" doc:"The id of the revision."`
	Index    int       `json:"index" doc:"Its index in the revision's rules, as written."`
}

// FlowVerdict is what happens to one flow, and why.
type FlowVerdict struct {
	Verdict    string       `json:"verdict"`
	Rule       *PlacedRule  `json:"rule" doc:"The rule that decided; null where the default did."`
	Reason     string       `json:"reason,omitempty" doc:"Why the default decided; absent where a rule did."` // where no rule decided
	Considered []Considered `json:"considered" doc:"The rules that were asked, in their order, among those of the direction that do not apply to the node; the last one decided, unless rule is null."`
	Default    *Default     `json:"default,omitempty" doc:"The default, where it decided; absent where a rule did."`
	Entry      *Entry       `json:"entry" doc:"The entry of the table that carries the verdict; null where the absence of one does."`
	Warnings   []Fault      `json:"warnings,omitempty" doc:"Policies that match the node and do not touch it; absent when there is none."`
	Refused    *Refused     `json:"refused,omitempty" doc:"Why an older table answered than the facts ask for; absent when none did."`
}

// Considered is a rule that was asked, the one that decided last; or, where it does
// not apply to the node, one that stands among them.
type Considered struct {
	PlacedRule
	Applies bool   `json:"applies" doc:"Whether the rule applies to the node. One that does not was not asked."`
	Matched bool   `json:"matched" doc:"Whether the flow is one of the rule's."`
	Reason  string `json:"reason" doc:"Why it did not decide, or that it did."`
}
