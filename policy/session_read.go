package policy

// DecodeSessionCode reads {"code":"…"}, which opens a browser's session. The error is Violations.
func DecodeSessionCode(body []byte) (code string, err error) {
	faults := read(body, func(r *reader) {
		seen := false
		ok := r.object("a session's code", func(name []byte) bool {
			if string(name) != "code" {
				return false
			}
			seen = true
			b, _ := r.text("a code string")
			code = string(b)
			return true
		})
		if ok && !seen {
			r.note("/code", CodeMissing, "code is required")
		}
	})
	return code, faults.orNil()
}
