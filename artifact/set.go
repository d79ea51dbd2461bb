package artifact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Part names an artifact of plane "mgmt" within the set of a node.
type Part struct{ Kind, Name string }

// String is the part as messages name it.
func (p Part) String() string { return p.Kind + " " + p.Name }

// Document is an artifact as it was offered: its text, and what it is said to be.
type Document struct {
	Part
	Text []byte
}

// Contents is what the payload of an artifact means to its set.
type Contents struct {
	Signers []PinSigner // whom the node trusts from this artifact on; of the lead alone
	Members []Part      // what the set has beside the lead; of the lead alone
}

// Format says what payloads of plane "mgmt" mean, which is not this package's
// business.
type Format struct {
	// Lead is the artifact that says whom to trust and what else is in its set.
	Lead Part
	// Read checks a payload. The errors are everything that is wrong with it.
	Read func(Envelope) (Contents, []error)
}

// Set is everything that a node holds of plane "mgmt" at one version, verified.
type Set struct {
	Version   uint64
	Signers   []PinSigner // trusted from this set on
	Envelopes []Envelope  // the lead first, then by kind and name
}

// PartError is what is wrong with one artifact of a set.
type PartError struct {
	Part Part
	Err  error
}

// Error names the artifact.
func (e *PartError) Error() string { return fmt.Sprintf("%v: %v", e.Part, e.Err) }

// Unwrap is what is wrong.
func (e *PartError) Unwrap() error { return e.Err }

// ErrNotOneSet: artifacts that do not belong together.
var ErrNotOneSet = errors.New("not one set")

// Check verifies the set of a node (reference 5A): the lead by a key of trust,
// the others by one that the lead authorizes, so that a set which retires a
// signer is signed by its successor. Each must be about the node and be what it
// is said to be; all have one version, and none is missing or too many.
// Whether the set is older than what a node holds is Store's business. Nothing
// stops at the first fault.
func (f Format) Check(trust *TrustSet, node string, docs []Document) (Set, []*PartError) {
	c := setCheck{format: f, node: node, version: map[Part]uint64{}}
	lead := slices.IndexFunc(docs, func(d Document) bool { return d.Part == f.Lead })
	if lead < 0 {
		c.fault(f.Lead, fmt.Errorf("%w: it is missing, and says what else the node runs", ErrNotOneSet))
		return c.set, c.faults
	}
	contents, ok := c.open(docs[lead], trust)
	if ok {
		c.set.Signers = contents.Signers
		var err error
		if trust, err = (Pin{Signers: contents.Signers}).Trust(); err != nil {
			c.fault(f.Lead, err)
		}
	}
	for i, d := range docs {
		if i != lead {
			c.open(d, trust)
		}
	}
	c.oneVersion()
	if ok {
		c.members(contents.Members)
	}
	slices.SortFunc(c.set.Envelopes, func(a, b Envelope) int {
		return cmp.Or(f.rank(a)-f.rank(b), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return c.set, c.faults
}

func (f Format) rank(e Envelope) int {
	if e.Kind == f.Lead.Kind && e.Name == f.Lead.Name {
		return 0
	}
	return 1
}

type setCheck struct {
	format  Format
	node    string
	set     Set
	version map[Part]uint64 // of those that could be read
	faults  []*PartError
}

func (c *setCheck) fault(p Part, err error) { c.faults = append(c.faults, &PartError{p, err}) }

// open verifies one artifact. It is good when there is no fault.
func (c *setCheck) open(d Document, trust *TrustSet) (Contents, bool) {
	before := len(c.faults)
	if _, twice := c.version[d.Part]; twice {
		c.fault(d.Part, fmt.Errorf("%w: it is there twice", ErrNotOneSet))
		return Contents{}, false
	}
	e, err := Parse(d.Text)
	if err != nil {
		c.version[d.Part] = 0
		c.fault(d.Part, err)
		return Contents{}, false
	}
	// What a wrong signer says still tells whether the set is one.
	if _, err := trust.Verify(e); err != nil {
		c.fault(d.Part, err)
	}
	c.version[d.Part] = e.Version
	if err := e.Expect(Identity{c.node, PlaneMgmt, d.Kind, d.Name}); err != nil {
		c.fault(d.Part, err)
	}
	contents, faults := c.format.Read(e)
	for _, err := range faults {
		c.fault(d.Part, err)
	}
	c.set.Envelopes = append(c.set.Envelopes, e)
	return contents, len(c.faults) == before
}

func (c *setCheck) oneVersion() {
	c.set.Version = c.version[c.format.Lead]
	for _, e := range c.set.Envelopes {
		if e.Version != c.set.Version {
			c.fault(Part{e.Kind, e.Name}, fmt.Errorf("%w: version %d beside %d of %v", ErrNotOneSet, e.Version, c.set.Version, c.format.Lead))
		}
	}
}

// members compares what is there with what the lead lists.
func (c *setCheck) members(listed []Part) {
	for _, p := range listed {
		if _, there := c.version[p]; !there {
			c.fault(p, fmt.Errorf("%w: it is missing, but %v lists it", ErrNotOneSet, c.format.Lead))
		}
	}
	for _, e := range c.set.Envelopes {
		if p := (Part{e.Kind, e.Name}); p != c.format.Lead && !slices.Contains(listed, p) {
			c.fault(p, fmt.Errorf("%w: %v does not list it", ErrNotOneSet, c.format.Lead))
		}
	}
}
