package policy

// DecodeProjectChange reads {"archived":true}, which archives a project, or false, which
// restores it. The error is Violations.
func DecodeProjectChange(body []byte) (archived bool, err error) {
	return archived, decodeMove(body, "a change of a project", []string{"archived"}, 1, func(r *reader, _ string) { archived = r.flag() })
}
