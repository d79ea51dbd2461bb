package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader walks one JSON document token by token and notes every fault it
// meets. Unknown fields and wrong types are noted and skipped; what makes the
// rest untrustworthy (broken JSON, a name said twice) ends the reading.
//
// The decoder itself knows the place of the last value read, so a pointer costs
// nothing until a fault needs it.
type reader struct {
	dec    jsontext.Decoder
	in     bytes.Buffer
	faults Violations
	shaped bool // one of them is in the document's shape
	ended  bool

	unquoted []byte // the last string that had escapes
	arena    []byte // text of the labels being read
	pairs    []pair
	record   record // of the event being read; else zero
}

// MaxFaults is how many faults of one document are reported. A fault of a few bytes
// takes hundreds of bytes to report, so the report of a document that has nothing but
// faults would be a hundred times its size.
const MaxFaults = 1024

// pooled is up to which size of a document what its reading took is kept for the
// next: the decoder remembers every name of an object.
const pooled = 1 << 20

// readers spares a decoder's buffers per document; it holds no state between
// documents.
var readers = sync.Pool{New: func() any { return new(reader) }}

// read gives the document to walk and returns the faults. What walk keeps must
// be copied out of the reader.
func read(body []byte, walk func(*reader)) (faults Violations) {
	readBody(body, func(r *reader) {
		walk(r)
		r.end()
		faults = r.faults
	})
	return faults
}

// readBody is read of a document that need not be walked to its end.
func readBody(body []byte, walk func(*reader)) {
	r := readers.Get().(*reader)
	r.in = *bytes.NewBuffer(body)
	r.dec.Reset(&r.in)
	r.faults, r.shaped, r.ended = nil, false, false
	walk(r)
	// The pool must not keep the body alive.
	r.in, r.faults = bytes.Buffer{}, nil
	r.dec.Reset(&r.in)
	if len(body) <= pooled {
		readers.Put(r)
	}
}

// note records a fault at the last value read, or below it. Beyond MaxFaults only
// the first in the shape is: it decides what the whole is.
func (r *reader) note(below, code, detail string) {
	shape := ofShape(code)
	if len(r.faults) >= MaxFaults && (r.shaped || !shape) {
		return
	}
	r.shaped = r.shaped || shape
	r.faults = append(r.faults, Violation{string(r.dec.StackPointer()) + below, code, detail})
}

// fail records why the document cannot be read any further.
func (r *reader) fail(err error) {
	if r.ended {
		return
	}
	r.ended = true
	v := Violation{Code: CodeMalformedJSON, Detail: "the document is empty"}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		v.Pointer = string(syntax.JSONPointer)
		v.Detail = fmt.Sprintf("not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			v.Code = CodeDuplicateKey
			v.Detail = fmt.Sprintf("%q occurs twice in one object; keep one", syntax.JSONPointer.LastToken())
		}
	}
	r.faults = append(r.faults, v)
}

// end checks that nothing follows the document.
func (r *reader) end() {
	if r.ended {
		return
	}
	at := r.dec.InputOffset()
	switch _, err := r.dec.ReadToken(); {
	case err == io.EOF:
	case err != nil:
		r.fail(err)
	default:
		r.ended = true
		r.faults = append(r.faults, Violation{
			"", CodeMalformedJSON,
			fmt.Sprintf("something follows the document at byte %d", at),
		})
	}
}

func (r *reader) skip() bool {
	if err := r.dec.SkipValue(); err != nil {
		r.fail(err)
	}
	return !r.ended
}

// expect reports whether the next value is of kind k; another one is noted and
// skipped.
func (r *reader) expect(k jsontext.Kind, want string) bool {
	if r.ended {
		return false
	}
	got := r.dec.PeekKind()
	if got == k {
		return true
	}
	if r.skip() {
		r.note("", CodeWrongType, "want "+want+examples[want]+", found "+kindName(got))
	}
	return false
}

// examples are those of objects and lists that authors write.
var examples = map[string]string{
	"a selector":               `, such as {"source":"role=web","destination":"role=db"}`,
	"a port range":             `, such as {"from":80,"to":80}`,
	"a rule":                   `, such as {"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}`,
	"an array of rules":        `, such as [{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]`,
	"an object of labels":      `, such as {"role":"web"}`,
	"an array of IP addresses": `, such as ["10.0.0.7"]`,
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

// null consumes a null if one comes next.
func (r *reader) null() bool {
	return !r.ended && r.dec.PeekKind() == 'n' && r.skip()
}

// object calls field with each name; field reads the value, or returns false
// for a name it does not know. The name is valid until the next read. One that is not
// known is answered with the known one that is close to it.
func (r *reader) object(what string, field func(name []byte) bool, known ...fields) bool {
	if !r.expect('{', what) {
		return false
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
	}
	for !r.ended {
		if r.dec.PeekKind() == '}' {
			_, err := r.dec.ReadToken()
			return err == nil
		}
		name, ok := r.text("a name") // the decoder refuses other names than strings
		if !ok || field(name) {
			continue
		}
		cure := "remove it"
		if meant := near(known, name); meant != "" {
			cure = fmt.Sprintf("did you mean %q?", meant)
		}
		if r.skip() {
			r.note("", CodeUnknownField, "not a field of "+what+"; "+cure)
		}
	}
	return false
}

// array calls element at each element, to read it.
func (r *reader) array(what string, element func(i int)) bool {
	if !r.expect('[', what) {
		return false
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
	}
	for i := 0; !r.ended; i++ {
		if r.dec.PeekKind() == ']' {
			_, err := r.dec.ReadToken()
			return err == nil
		}
		element(i)
	}
	return false
}

// value reads a value of any kind; its bytes are valid until the next read.
func (r *reader) value() (jsontext.Value, bool) {
	if r.ended {
		return nil, false
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return nil, false
	}
	return v, true
}

// text reads a string value; the bytes are valid until the next read.
func (r *reader) text(what string) ([]byte, bool) {
	v, ok := r.value()
	if !ok {
		return nil, false
	}
	if v[0] != '"' {
		r.note("", CodeWrongType, "want "+what+", found "+kindName(v.Kind()))
		return nil, false
	}
	if raw := v[1 : len(v)-1]; bytes.IndexByte(raw, '\\') < 0 {
		return raw, true
	}
	var err error
	r.unquoted, err = jsontext.AppendUnquote(r.unquoted[:0], v)
	if err != nil {
		r.fail(err)
	}
	return r.unquoted, err == nil
}

// require notes the fields of an object just read that are in need but not in
// seen; bit i stands for names[i].
func (r *reader) require(need, seen uint, names []string) {
	if need &^= seen; need == 0 || r.ended {
		return
	}
	for i, name := range names {
		if need&(1<<i) != 0 {
			r.note("/"+name, CodeMissing, name+" is required")
		}
	}
}

// fieldBit is the bit of a field's name in a list of them, 0 for another name.
func fieldBit(names []string, name []byte) uint {
	for i, n := range names {
		if string(name) == n {
			return 1 << i
		}
	}
	return 0
}
