package document

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// parseJSON reads a stream of JSON values. Of values that stand one on a line,
// a broken one hides no other.
func parseJSON(file string, text []byte) (docs []Document, faults []Fault) {
	places := newLined(text)
	lines := true // every value so far stood on a line of its own
	for at := 0; ; {
		at += leadingSpace(text[at:])
		if at == len(text) {
			return docs, faults
		}
		value, n, err := readValue(text[at:])
		if err != nil {
			message, broken := jsonFault(text, at, err)
			end := at + bytes.IndexByte(text[at:], '\n')
			// A value that goes on over lines cannot be distinguished from the next one.
			last := !lines || end < at || broken > end+1
			if !last {
				broken = min(broken, end) // the next line is not to blame
			}
			line, column := places.position(broken)
			faults = append(faults, Fault{File: file, Line: line, Column: column, Message: message, Unreadable: true})
			if last {
				return docs, faults
			}
			at = end + 1
			continue
		}
		lines = lines && !bytes.Contains(text[at:at+n], []byte{'\n'})
		docs = append(docs, elements(file, places, at, value)...)
		at += n
	}
}

// readValue reads one value and tells its length, which includes nothing after
// it.
func readValue(text []byte) (value jsontext.Value, n int, err error) {
	dec := decoder(text)
	value, err = dec.ReadValue()
	return value, int(dec.InputOffset()), err
}

func decoder(text []byte) *jsontext.Decoder {
	// The domain's reader tells about names said twice, with the place.
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
}

func leadingSpace(text []byte) int {
	return len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
}

// jsonFault tells what a syntax error means, and its offset.
func jsonFault(text []byte, at int, err error) (message string, offset int) {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends too early", len(text)
	case errors.As(err, &syntax):
		return "not JSON: " + syntax.Err.Error(), at + int(syntax.ByteOffset)
	}
	return err.Error(), at
}

// elements is the document at an offset, or those of the array there.
func elements(file string, places lined, at int, value jsontext.Value) []Document {
	if value.Kind() != '[' {
		return []Document{jsonDocument(file, places, at, value)}
	}
	var docs []Document
	dec := decoder(value)
	if _, err := dec.ReadToken(); err != nil {
		return nil // the value was read before
	}
	for dec.PeekKind() != ']' {
		element, err := dec.ReadValue()
		if err != nil {
			return docs
		}
		begin := at + int(dec.InputOffset()) - len(element)
		docs = append(docs, jsonDocument(file, places, begin, element))
	}
	return docs
}

func jsonDocument(file string, places lined, at int, value jsontext.Value) Document {
	body := bytes.Clone(value)
	return Document{File: file, Line: places.line(at), JSON: body, at: func(pointer string) (int, int, bool) {
		offset, ok := findJSON(body, pointer)
		if !ok {
			return 0, 0, false
		}
		line, column := places.position(at + offset)
		return line, column, true
	}}
}

// findJSON is the offset of what a pointer means: of a member, its name.
func findJSON(doc []byte, pointer string) (offset int, ok bool) {
	dec := decoder(doc)
	if pointer == "" {
		return 0, true
	}
	for {
		before := int(dec.InputOffset())
		if _, err := dec.ReadToken(); err != nil {
			return 0, false
		}
		if string(dec.StackPointer()) == pointer {
			skip := len(doc[before:]) - len(strings.TrimLeft(string(doc[before:]), " \t\r\n,:"))
			return before + skip, true
		}
	}
}
