package projector

import (
	"hash"
	"strings"
)

// Names of the kinds of Fact.
const (
	FactPolicy    = "policy"
	FactRevision  = "revision"
	FactNode      = "node"
	FactRow       = "row"
	FactAdmission = "admission_policy"
	FactRete      = "rete"
	FactArtifacts = "artifacts"
	FactRelease   = "release"
	FactPrincipal = "principal"
	FactRollout   = "rollout"
	FactQuota     = "quota"
	FactArchived  = "archived"
)

// FactKind is one of the kinds of Fact: where the store has them, how they are
// loaded, hashed and reported.
type FactKind struct {
	Name string
	// Title names a fact by its key, for a reader.
	Title func(key string) string

	prefix byte                // of its keys; 0: derived, so neither loaded nor hashed by itself
	load   func(*loader) error // nil: the fold looks it up in the store
	// hash adds a record to the digest; rows are those it stands for.
	hash func(at digester, h hash.Hash, key, value []byte) (rows int, err error)
	fact func(f factReader, key, value []byte) (Fact, error)
}

// FactKinds are all of them, in the order in which they are loaded, hashed,
// reported and compared. The digest is made of these, in this order: both are part of
// what two releases must agree on.
//
// A key is, in the order of this list, project/policy, policy/sequence (20 digits),
// project/node, node/policy, an admission policy's id, project/rete, project/node,
// "project/node version" (20 digits), since a space sorts before what ids have, a
// principal's id, a policy's, of a former rollout policy/sequence of its first wave, a
// project's, and an archived project's.
// Where a node is of several retes, " of rete" follows the node, for each
// but its first.
var FactKinds = []FactKind{
	{FactPolicy, ofProjects(FactPolicy), keyPolicy, (*loader).policies, hashPolicy, of(policyFact)},
	{FactRevision, revisionTitle, keyRevision, (*loader).revisions, hashWhole, of(revisionFact)},
	{FactNode, ofProjects(FactNode), keyNode, (*loader).nodes, hashNode, factReader.nodeFact},
	{FactRow, rowTitle, 0, nil, nil, nil},
	{FactAdmission, ofPlane("admission policy"), keyAdmission, (*loader).admission, hashWhole, of(admissionFact)},
	{FactRete, ofProjects(FactRete), keyRete, (*loader).retes, hashWhole, of(reteFact)},
	{FactArtifacts, ofProjects(FactArtifacts), keyArtifacts, (*loader).artifacts, hashWhole, of(artifactsFact)},
	{FactRelease, releaseTitle, keyRelease, nil, hashWhole, of(releaseFact)},
	{FactPrincipal, ofPlane("principal"), keyPrincipal, (*loader).access, hashPrincipal, factReader.principalFact},
	{FactRollout, ofPlane("rollout of policy"), keyRollout, (*loader).rollouts, hashRollout, of(rolloutFact)},
	{FactQuota, ofPlane("quota of project"), keyQuota, (*loader).quotas, hashWhole, of(quotaFact)},
	{FactArchived, ofPlane("archived project"), keyArchived, (*loader).archivals, hashWhole, of(archivedFact)},
}

// of makes a fact of a record that needs no other.
func of(fact func(key, value []byte) (Fact, error)) func(factReader, []byte, []byte) (Fact, error) {
	return func(_ factReader, key, value []byte) (Fact, error) { return fact(key, value) }
}

func ofProjects(noun string) func(string) string {
	return func(key string) string {
		project, id, _ := strings.Cut(key, "/")
		return noun + " " + id + " of project " + project
	}
}

func ofPlane(noun string) func(string) string {
	return func(key string) string { return noun + " " + key }
}

func revisionTitle(key string) string {
	policy, seq, _ := strings.Cut(key, "/")
	return "policy " + policy + ", revision of sequence " + strings.TrimLeft(seq, "0")
}

func rowTitle(key string) string {
	node, policy, _ := strings.Cut(key, "/")
	return "node " + node + ", policy " + policy
}

func releaseTitle(key string) string {
	project, id, _ := strings.Cut(key, "/")
	at := strings.LastIndexByte(id, ' ')
	node, version := id[:max(at, 0)], id[at+1:]
	return "release " + strings.TrimLeft(version, "0") + " of node " + node + " of project " + project
}
