package rete

import (
	"slices"
	"strings"
)

// Names that mean something to the specification, and so cannot be renamed.
const (
	ConfigServer    = "config-server"    // service that nodes fetch their state from
	ConfigPublisher = "config-publisher" // service that operators push state to
	RoleNode        = "node"             // role of every node, never written in YAML
	RoleOperator    = "operator"
	GroupRead       = "config-read"
	GroupWrite      = "config-write"
)

// reserved ties each reserved service and role to its group.
var reserved = []struct{ service, role, group string }{
	{ConfigServer, RoleNode, GroupRead},
	{ConfigPublisher, RoleOperator, GroupWrite},
}

// Kinds of principals, the first segment of a SPIFFE ID's path.
const (
	PrincipalUser     = "user"
	PrincipalService  = "service"
	PrincipalNode     = "node"
	PrincipalVertex   = "vertex"
	PrincipalMgmt     = "management-plane"
	PrincipalCtrl     = "control-plane"
	principalTemplate = "spiffe://"
)

var principalKinds = []string{PrincipalUser, PrincipalService, PrincipalNode, PrincipalVertex, PrincipalMgmt, PrincipalCtrl}

// TrustDomain is the SPIFFE ID of a rete itself, which its CA has.
func TrustDomain(rete string) string { return principalTemplate + rete }

// SPIFFE is the identity of a principal: spiffe://<rete>/<segments>.
func SPIFFE(rete string, segments ...string) string {
	return TrustDomain(rete) + "/" + strings.Join(segments, "/")
}

// notLabel says what a label is, of a name that is none.
const notLabel = "must be 1 to 63 lower case letters, digits and hyphens, beginning and ending with a letter or digit"

// isLabel tells DNS labels: lower case letters, digits and hyphens, 1 to 63.
func isLabel(s string) bool {
	const most = 63
	if len(s) == 0 || len(s) > most || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// files that the install root has already: principals' certificates lie beside
// them, and some systems cannot have files of the device names.
var takenNames = append(strings.Fields(`agent manifest ca con prn aux nul
	com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9`), principalKinds...)

// BadName says what is wrong with the name of a principal, a vertex or a
// signer; empty: nothing.
func BadName(name string) string {
	switch {
	case !isLabel(name):
		return notLabel
	case slices.Contains(takenNames, name):
		return "is reserved; choose another name"
	}
	return ""
}
