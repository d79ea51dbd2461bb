package datapath

import "math"

// key is a protocol and a prefix of ports: protocol << 24 | port << 8 | bits. Any
// protocol has no ports. Ascending, a key stands before all it covers, and all it
// covers stand together.
type key uint32

// wholeKey covers every flow.
const wholeKey key = 0

const portBits = 16

func newKey(p Protocol, port uint16, bits uint8) key {
	return key(p)<<24 | key(port)<<8 | key(bits)
}

func (k key) protocol() Protocol { return Protocol(k >> 24) }
func (k key) port() uint16       { return uint16(k >> 8) }
func (k key) bits() uint8        { return uint8(k) }

// depth is how many bits of a flow the key fixes, from 0: the length of the
// prefix that the longest-prefix match compares.
func (k key) depth() int {
	if k == wholeKey {
		return 0
	}
	return 1 + int(k.bits())
}

// holds reports whether k covers a port of a protocol.
func (k key) holds(p Protocol, port uint16) bool {
	return k == wholeKey || k.protocol() == p && (k.port()^port)>>(portBits-k.bits()) == 0
}

// covers reports whether k is o or covers it.
func (k key) covers(o key) bool {
	return k.depth() <= o.depth() && k.holds(o.protocol(), o.port())
}

// last is the highest key that k covers.
func (k key) last() key {
	if k == wholeKey {
		return math.MaxUint32
	}
	return newKey(k.protocol(), k.port()|uint16(1<<(portBits-k.bits())-1), portBits)
}

// appendRange appends the fewest prefixes that are together the ports from..to.
func appendRange(keys []key, p Protocol, from, to uint16) []key {
	for at := uint32(from); at <= uint32(to); {
		size := uint32(1) << portBits
		if at > 0 {
			size = at & -at // the largest block that begins here
		}
		bits := uint8(portBits)
		for s := size; s > 1; s >>= 1 {
			bits--
		}
		for at+size-1 > uint32(to) {
			size >>= 1
			bits++
		}
		keys = append(keys, newKey(p, uint16(at), bits))
		at += size
	}
	return keys
}

// appendKeys appends the fewest keys that are together what r matches.
func (r *Rule) appendKeys(keys []key) []key {
	if r.everyPort() {
		return append(keys, newKey(r.Protocol, 0, 0))
	}
	if r.Protocol != AnyProtocol {
		return appendRange(keys, r.Protocol, r.Ports.From, r.Ports.To)
	}
	for _, p := range withPorts {
		keys = appendRange(keys, p, r.Ports.From, r.Ports.To)
	}
	return keys
}

// everyPort reports whether no port is left out.
func (r *Rule) everyPort() bool { return r.Ports.To == 0 || r.Ports.From == 1 && r.Ports.To == 65535 }

// Shapes number what one line can cover whole: everything, or one protocol.
const (
	shapeWhole = iota
	shapeICMP
	shapeTCP
	shapeUDP
	shapeSCTP
	shapes
)

// shape is the shape in which all keys of r lie, and whether they are all of it.
func (r *Rule) shape() (shape uint8, whole bool) {
	whole = r.everyPort()
	switch r.Protocol {
	case ICMP:
		return shapeICMP, whole
	case TCP:
		return shapeTCP, whole
	case UDP:
		return shapeUDP, whole
	case SCTP:
		return shapeSCTP, whole
	}
	return shapeWhole, whole
}
