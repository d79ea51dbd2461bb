//go:build linux

package enforce_test

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// probe is one packet that begins a flow.
type probe struct {
	from, to     netip.Addr
	protocol     uint8
	source, port uint16 // of protocols that have ports
	id           uint32
}

const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoGRE    = 47
	protoICMPv6 = 58
	protoSCTP   = 132
)

// magic stands before the id at the end of a probe.
var magic = []byte("edct")

// packet is the probe with its IP header.
func (p probe) packet() []byte {
	payload := binary.BigEndian.AppendUint32(append([]byte{}, magic...), p.id)
	segment := p.segment(payload)
	if p.from.Is4() {
		h := make([]byte, 20, 20+len(segment))
		h[0], h[8], h[9] = 0x45, 64, p.protocol
		binary.BigEndian.PutUint16(h[2:], uint16(20+len(segment)))
		copy(h[12:], p.from.AsSlice())
		copy(h[16:], p.to.AsSlice())
		return append(h, segment...)
	}
	h := make([]byte, 40, 40+len(segment))
	h[0], h[6], h[7] = 0x60, p.protocol, 64
	binary.BigEndian.PutUint16(h[4:], uint16(len(segment)))
	copy(h[8:], p.from.AsSlice())
	copy(h[24:], p.to.AsSlice())
	return append(h, segment...)
}

func (p probe) segment(payload []byte) []byte {
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, p.source), p.port)
	switch p.protocol {
	case protoUDP:
		s := append(binary.BigEndian.AppendUint16(ports, uint16(8+len(payload))), 0, 0)
		return p.summed(append(s, payload...), 6)
	case protoTCP: // a SYN
		s := append(ports, 0, 0, 0, 1, 0, 0, 0, 0, 5<<4, 2, 0xff, 0xff, 0, 0, 0, 0)
		return p.summed(append(s, payload...), 16)
	case protoSCTP: // an INIT
		s := append(ports, 0, 0, 0, 0, 0, 0, 0, 0)
		s = append(s, 1, 0, 0, byte(20+len(payload)), 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1)
		s = append(s, payload...)
		binary.LittleEndian.PutUint32(s[8:], crc32.Checksum(s, crc32.MakeTable(crc32.Castagnoli)))
		return s
	case protoICMP, protoICMPv6: // an echo request; its identifier stands for the flow
		s := append([]byte{8, 0, 0, 0}, binary.BigEndian.AppendUint16(nil, p.source)...)
		if p.protocol == protoICMPv6 {
			s[0] = 128
		}
		return p.summed(append(append(s, 0, 1), payload...), 2)
	}
	return append([]byte{0, 0, 0x65, 0x58}, payload...)
}

// summed puts the Internet checksum in its place.
func (p probe) summed(s []byte, at int) []byte {
	var sum uint32
	add := func(b []byte) {
		for i := 0; i < len(b); i += 2 {
			if i+1 < len(b) {
				sum += uint32(b[i])<<8 | uint32(b[i+1])
			} else {
				sum += uint32(b[i]) << 8
			}
		}
	}
	if p.protocol != protoICMP { // over the pseudo header too
		add(p.from.AsSlice())
		add(p.to.AsSlice())
		sum += uint32(p.protocol) + uint32(len(s))
	}
	add(s)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(s[at:], ^uint16(sum))
	return s
}

// seen reads a packet as a raw socket gives it: with its header over IPv4, without
// over IPv6. ok is false for what is no probe.
func seen(b []byte, four bool, protocol uint8) (id uint32, port uint16, ok bool) {
	if four {
		if len(b) < 20 || len(b) < int(b[0]&15)*4 {
			return 0, 0, false
		}
		b = b[int(b[0]&15)*4:]
	}
	n := len(b) - 8
	if n < 4 || string(b[n:n+4]) != string(magic) {
		return 0, 0, false
	}
	switch protocol {
	case protoTCP, protoUDP, protoSCTP:
		port = binary.BigEndian.Uint16(b[2:])
	case protoICMP, protoICMPv6:
		if b[0] != 8 && b[0] != 128 { // an error that quotes a probe, or an answer to one
			return 0, 0, false
		}
	}
	return binary.BigEndian.Uint32(b[n+4:]), port, true
}
