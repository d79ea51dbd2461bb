package rete

import (
	"reflect"
	"strings"
)

// What rules other than the first hold, as far as a schema can say it. Kinds refer to
// each other by names that other files may have, which no schema sees.

const (
	labelPattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
	portPattern  = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
	octet        = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
	ipv4Pattern  = octet + `(\.` + octet + "){3}"
	// undiallable4 begins the addresses that rule 9 refuses, undiallable6 the shortest
	// texts of those of IPv6.
	undiallable4 = `127\.|0\.0\.0\.0:|2(2[4-9]|3[0-9])\.|255\.255\.255\.255:|169\.254\.`
	undiallable6 = `\[(::1?\]|[fF][fF][0-9A-Fa-f]{2}:|[fF][eE][89aAbB][0-9A-Fa-f]:)`
	elsewhere    = `[^/\\.][^/\\]*|\.[^/\\.][^/\\]*|\.\.[^/\\]+` // an element of a path that is neither . nor ..
)

// ipv6Pattern is every text of an IPv6 address without zone.
func ipv6Pattern() string {
	const group = "[0-9A-Fa-f]{1,4}"
	last := "(" + group + ":" + group + "|" + ipv4Pattern + ")"
	forms := []string{"(" + group + ":){6}" + last}
	for left := range 8 { // groups before the :: at most
		before := ""
		if left > 0 {
			before = "(" + group + ":){0," + string(rune('0'+left-1)) + "}" + group
			before = "(" + before + ")?"
		}
		after := ""
		switch right := 7 - left; { // groups that may follow it
		case right >= 2:
			after = "((" + group + ":){0," + string(rune('0'+right-2)) + "}" + last + "|" + group + ")?"
		case right == 1:
			after = "(" + group + ")?"
		}
		forms = append(forms, before+"::"+after)
	}
	return "(" + strings.Join(forms, "|") + ")"
}

// name is a text that must be a label, and with unreserved none that is taken.
func name(s object, unreserved bool) object {
	delete(s, "minLength")
	s["pattern"] = labelPattern
	if unreserved {
		s["not"] = object{"enum": takenNames}
	}
	return s
}

// names is a list of labels, each once, none of which is among others.
func names(s object, not ...string) object {
	items := name(s["items"].(object), false)
	if len(not) > 0 {
		items["not"] = object{"enum": not}
	}
	s["uniqueItems"] = true
	return s
}

// stricter adds to the schema of a type what other rules say of its fields.
func stricter(t reflect.Type, s object) object {
	field := func(name string) object { return s["properties"].(object)[name].(object) }
	switch t {
	case reflect.TypeFor[Node]():
		field("vertices")["contains"] = object{"properties": object{"type": object{"const": TypeQUIC}, "kind": object{"const": KindLink}}, "required": []string{"type", "kind"}}
		field("vertices")["maxContains"] = 1
		name(field("agent_via"), true)
	case reflect.TypeFor[Vertex]():
		name(field("name"), true)
		field("kind")["enum"] = []VertexKind{KindLink}
		field("uses")["maxItems"] = 0
		field("address")["not"] = object{"pattern": "^(" + undiallable4 + "|" + undiallable6 + ")"}
	case reflect.TypeFor[Service]():
		name(field("at"), true)
		name(field("via"), true)
		names(field("groups"))
		names(field("roles"), RoleNode)
		s["dependentSchemas"] = object{"socks5_proxy": object{"required": []string{"roles"}, "properties": object{"roles": object{"minItems": 1}}}}
	case reflect.TypeFor[Role]():
		names(field("allow"))
	case reflect.TypeFor[User]():
		names(field("roles"), RoleNode)
		field("nodes")["uniqueItems"] = true
	case reflect.TypeFor[Device]():
		name(field("at"), true)
		name(field("via"), true)
	case reflect.TypeFor[MgmtSigners]():
		field("keys")["minItems"] = 1
		field("keys")["uniqueItems"] = true
	case reflect.TypeFor[SignerKey]():
		name(field("name"), true)
		field("cert")["pattern"] = "^certs/management-planes/(" + elsewhere + ")(/(" + elsewhere + "))*$"
	}
	return s
}

// wholeFile adds what a file as a whole must hold: its entries are known by name.
func wholeFile(s object) object {
	properties := s["properties"].(object)
	for _, kind := range []string{"nodes", "services", "users"} {
		properties[kind].(object)["propertyNames"] = name(object{}, true)
	}
	for _, kind := range []string{"groups", "roles"} {
		properties[kind].(object)["propertyNames"] = name(object{}, false)
	}
	in := func(kind, field string, groups ...string) object { // entries with other groups than these
		return object{"properties": object{field: object{"items": object{"not": object{"enum": groups}}}}}
	}
	both := []string{GroupRead, GroupWrite}
	special := func(kind, field string, entries map[string]object) {
		own := object{}
		for entry, rule := range entries {
			own[entry] = rule
		}
		properties[kind].(object)["allOf"] = []object{{"type": []string{"object", "null"}, "properties": own, "additionalProperties": in(kind, field, both...)}}
	}
	roles, services := map[string]object{}, map[string]object{}
	for i, r := range reserved {
		roles[r.role] = object{"properties": object{"allow": object{"const": []string{r.group}}}}
		other := both[1-i]
		services[r.service] = object{
			"required":   []string{"groups"},
			"properties": object{"groups": object{"contains": object{"const": r.group}, "items": object{"not": object{"enum": []string{other}}}}},
		}
	}
	special("roles", "allow", roles)
	special("services", "groups", services)
	s["not"] = object{"required": []string{"source", "rete"}, "properties": object{"rete": object{"required": []string{"source"}}}}
	return s
}
