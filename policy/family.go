package policy

// Names of families in log subjects (docs/design.md#the-fold-is-the-judge).
const (
	FamilyPolicy    = "policy"
	FamilyNode      = "node"
	FamilyArtifact  = "artifact"
	FamilyAdmission = "admission"
	FamilyAccess    = "access"
	FamilyKey       = "key"
	FamilyProject   = "project"
)

// Family is what the events about one sort of thing share: where in the log their
// subjects are.
type Family struct {
	Name  string // a part of the subject
	Noun  string // what its events are about, in messages
	Key   string // what the last part of the subject is the id of
	Plane bool   // what they are about belongs to the plane, and to a project else
}

var (
	ofPolicies   = &Family{FamilyPolicy, "policy", "policy", false}
	ofNodes      = &Family{FamilyNode, "node", "node", false}
	ofArtifacts  = &Family{FamilyArtifact, "artifacts of node", "node", false}
	ofAdmission  = &Family{FamilyAdmission, "admission policy", "policy", true}
	ofPrincipals = &Family{FamilyAccess, "principal", "principal", true}
	ofKeys       = &Family{FamilyKey, "key", "key id", true}
	ofProjects   = &Family{FamilyProject, "project", "project", true}
)

var families = []*Family{ofPolicies, ofNodes, ofArtifacts, ofAdmission, ofPrincipals, ofKeys, ofProjects}

// Families are all of them.
func Families() []*Family { return families }

// FamilyNamed is the family of that name in subjects; nil: none.
func FamilyNamed(name string) *Family {
	for _, f := range families {
		if f.Name == name {
			return f
		}
	}
	return nil
}
