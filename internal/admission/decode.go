package admission

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ParseValid is ParsePayload of a text that a reader of JSON has passed already, which
// is most of the work of decoding it. A text that is no JSON is an error all the same,
// or what it nearly is.
func ParseValid(text []byte) (map[string]any, error) {
	p := parser{text: text}
	v, err := p.value()
	payload, ok := v.(map[string]any)
	if p.space(); err != nil || !ok || p.at < len(text) {
		return ParsePayload(text) // it says what is wrong
	}
	return payload, nil
}

// parser decodes JSON that is valid.
type parser struct {
	text []byte
	at   int
}

var errNoJSON = errors.New("is no JSON")

func (p *parser) space() {
	for p.at < len(p.text) && p.text[p.at] <= ' ' {
		p.at++
	}
}

// next is the next character behind space; 0 at the end.
func (p *parser) next() byte {
	if p.space(); p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) value() (any, error) {
	switch c := p.next(); c {
	case '{':
		return p.object()
	case '[':
		return p.list()
	case '"':
		return p.string()
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	}
	return p.number()
}

func (p *parser) word(word string) error {
	if !bytes.HasPrefix(p.text[p.at:], []byte(word)) {
		return errNoJSON
	}
	p.at += len(word)
	return nil
}

func (p *parser) number() (json.Number, error) {
	from := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			p.at++
			continue
		}
		break
	}
	if p.at == from {
		return "", errNoJSON
	}
	return json.Number(p.text[from:p.at]), nil
}

func (p *parser) string() (s string, err error) {
	from := p.at
	plain := true
	for p.at++; p.at < len(p.text) && p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			plain = false
			p.at++
		}
	}
	if p.at++; p.at > len(p.text) {
		return "", errNoJSON
	}
	if plain {
		return string(p.text[from+1 : p.at-1]), nil
	}
	err = json.Unmarshal(p.text[from:p.at], &s)
	return s, err
}

func (p *parser) list() (list []any, err error) {
	list = []any{}
	for p.at++; p.next() != ']'; {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if err := p.comma(']'); err != nil {
			return nil, err
		}
	}
	p.at++
	return list, nil
}

func (p *parser) object() (map[string]any, error) {
	object := map[string]any{}
	for p.at++; p.next() != '}'; {
		if p.next() != '"' {
			return nil, errNoJSON
		}
		k, err := p.string()
		if err != nil || p.next() != ':' {
			return nil, errNoJSON
		}
		p.at++
		if object[k], err = p.value(); err != nil {
			return nil, err
		}
		if err := p.comma('}'); err != nil {
			return nil, err
		}
	}
	p.at++
	return object, nil
}

// comma passes a comma, unless the end is next.
func (p *parser) comma(end byte) error {
	switch p.next() {
	case end:
		return nil
	case ',':
		p.at++
		return nil
	}
	return errNoJSON
}
