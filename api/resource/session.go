package resource

import "time"

// SessionLink opens the console in a browser.
type SessionLink struct {
	Path      string     `json:"path" doc:"Where the console is, below the plane's address. What follows # opens one session; absent where access is not configured, and none is needed."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Until when it can be opened; absent where there is no session to open."`
}

// SessionCode is the code of a link.
type SessionCode struct {
	Code string `json:"code" doc:"What follows #code= in the link."`
}

// Session is a browser's, opened.
type Session struct {
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When it is over; absent where access is not configured, and none is needed."`
}

// SignIn is where people sign in.
type SignIn struct {
	Issuer string `json:"issuer,omitempty" doc:"The OpenID Connect issuer; absent where nobody signs in with a browser."`
	Path   string `json:"path,omitempty" doc:"Where a browser goes to sign in; absent likewise."`
}
