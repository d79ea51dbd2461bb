package artifact

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxInteger is the largest magnitude of a number in a signed document: beyond
// it JSON readers disagree (RFC 8785, section 3.2.2.3).
const MaxInteger = 1<<53 - 1

// Canonical rewrites a JSON text into RFC 8785 form: no white space, names
// sorted by their UTF-16 code units, strings escaped as ECMAScript does. Names
// said twice, text that is not UTF-8, and numbers other than integers within
// ±MaxInteger (written without fraction or exponent) are errors.
func Canonical(doc []byte) ([]byte, error) {
	c := canonicalisers.Get().(*canonicaliser)
	defer c.done(len(doc))
	c.in = *bytes.NewBuffer(doc)
	c.dec.Reset(&c.in)
	if err := c.value(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	if _, err := c.dec.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("canonical form: something follows the document at byte %d", c.dec.InputOffset())
	}
	return c.sorted(), nil
}

// canonicalisers keep the room that a document took for the next.
var canonicalisers = sync.Pool{New: func() any { return new(canonicaliser) }}

// pooled is up to which size of a document, in bytes, its room is kept: that of a document
// of many small members is several times its size.
const pooled = 64 << 10

// done leaves nothing of the document, which has so many bytes, to the next.
func (c *canonicaliser) done(size int) {
	if size > pooled {
		return
	}
	c.in = bytes.Buffer{}
	c.dec.Reset(&c.in)
	c.out, c.members, c.names, c.unsorted, c.moved = c.out[:0], c.members[:0], c.names[:0], c.unsorted[:0], c.moved[:0]
	canonicalisers.Put(c)
}

type canonicaliser struct {
	in       bytes.Buffer
	dec      jsontext.Decoder
	out      []byte     // canonical, but for the order of names
	members  []member   // of the objects that are open, outermost first
	names    []byte     // theirs, without quotes
	unsorted []unsorted // objects whose names came in another order
	moved    []member   // theirs
}

func (c *canonicaliser) value() error {
	switch c.dec.PeekKind() {
	case '{':
		return c.object()
	case '[':
		return c.array()
	case '"':
		return c.string()
	case '0':
		return c.number()
	}
	v, err := c.dec.ReadValue() // a literal, or the reason why there is none
	c.out = append(c.out, v...)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// string writes a string or a name.
func (c *canonicaliser) string() error {
	v, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	if bytes.IndexByte(v, '\\') < 0 { // what needs an escape is not in it either
		c.out = append(c.out, v...)
		return nil
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return err
	}
	c.out, err = jsontext.AppendQuote(c.out, text) // escapes exactly what RFC 8785 does
	return err
}

// name writes a name, and appends what it says to names.
func (c *canonicaliser) name() error {
	from := len(c.out)
	if err := c.string(); err != nil {
		return err
	}
	var err error
	if written := c.out[from:]; bytes.IndexByte(written, '\\') < 0 {
		c.names = append(c.names, written[1:len(written)-1]...)
	} else {
		c.names, err = jsontext.AppendUnquote(c.names, written)
	}
	return err
}

func (c *canonicaliser) number() error {
	v, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > MaxInteger || n < -MaxInteger {
		return fmt.Errorf("%s is %.40s; a signed document has only integers within ±%d", where(&c.dec), v, int64(MaxInteger))
	}
	c.out = strconv.AppendInt(c.out, n, 10)
	return nil
}

func where(d *jsontext.Decoder) string {
	if p := d.StackPointer(); p != "" {
		return string(p)
	}
	return "the document"
}

func (c *canonicaliser) array() error {
	c.out = append(c.out, '[')
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	for first := true; c.dec.PeekKind() != ']'; first = false {
		if !first {
			c.out = append(c.out, ',')
		}
		if err := c.value(); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	_, err := c.dec.ReadToken()
	return err
}

// member is one written member of an object: out[from:to], without comma, and
// its name: names[name:nameEnd].
type member struct{ from, to, name, nameEnd int }

func (c *canonicaliser) compareMembers(a, b member) int {
	return compareUTF16(c.names[a.name:a.nameEnd], c.names[b.name:b.nameEnd])
}

func (c *canonicaliser) object() error {
	c.out = append(c.out, '{')
	start, outer, outerNames := len(c.out), len(c.members), len(c.names)
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	for c.dec.PeekKind() != '}' {
		if len(c.members) > outer {
			c.out = append(c.out, ',')
		}
		m := member{from: len(c.out), name: len(c.names)}
		if err := c.name(); err != nil {
			return err
		}
		m.nameEnd = len(c.names)
		c.out = append(c.out, ':')
		if err := c.value(); err != nil {
			return err
		}
		m.to = len(c.out)
		c.members = append(c.members, m)
	}
	if members := c.members[outer:]; !slices.IsSortedFunc(members, c.compareMembers) {
		slices.SortFunc(members, c.compareMembers)
		c.unsorted = append(c.unsorted, unsorted{start - 1, len(c.out), len(c.moved), len(members)})
		c.moved = append(c.moved, members...)
	}
	c.members, c.names = c.members[:outer], c.names[:outerNames]
	c.out = append(c.out, '}')
	_, err := c.dec.ReadToken()
	return err
}

// unsorted is an object that was written in another order: out[from:to] is what it is
// from its brace on, and moved[first:first+count] are its members as they must stand.
type unsorted struct{ from, to, first, count int }

// sorted is a copy of out with every object in order. It is written in one go, since an object
// that is put in order where it ends would be moved again by each that holds it.
func (c *canonicaliser) sorted() []byte {
	if len(c.unsorted) == 0 {
		return slices.Clone(c.out)
	}
	slices.SortFunc(c.unsorted, func(a, b unsorted) int { return a.from - b.from }) // outer ones first
	return c.appendSorted(make([]byte, 0, len(c.out)), 0, len(c.out))
}

// appendSorted appends out[at:end], which holds each unsorted object as a whole or not
// at all.
func (c *canonicaliser) appendSorted(to []byte, at, end int) []byte {
	for {
		next, _ := slices.BinarySearchFunc(c.unsorted, at, func(o unsorted, at int) int { return o.from - at })
		if next == len(c.unsorted) || c.unsorted[next].from >= end {
			return append(to, c.out[at:end]...)
		}
		o := c.unsorted[next]
		to = append(to, c.out[at:o.from+1]...)
		for i, m := range c.moved[o.first : o.first+o.count] {
			if i > 0 {
				to = append(to, ',')
			}
			to = c.appendSorted(to, m.from, m.to)
		}
		at = o.to
	}
}

// compareUTF16 orders strings by their UTF-16 code units. It differs from the
// order of UTF-8 bytes only where a character beyond U+FFFF, whose first unit is
// a surrogate, meets one of U+E000 to U+FFFF.
func compareUTF16(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, n := utf8.DecodeRune(a)
		y, m := utf8.DecodeRune(b)
		if x != y {
			if ux, uy := firstUnit(x), firstUnit(y); ux != uy {
				return int(ux - uy)
			}
			return int(x - y)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xd800 + (r-0x10000)>>10
}
