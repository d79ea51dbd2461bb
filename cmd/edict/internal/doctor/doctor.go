// Package doctor looks at a plane and at the way to it, as an operator does who was called: it
// says what it found, and for what is wrong what to type next. It asks only for what can be
// read, and changes nothing.
package doctor

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/api/client"
)

// States of a finding.
const (
	OK      = "ok"
	Warning = "warning" // it works, and will not for ever
	Failed  = "failed"
	Skipped = "skipped" // not judged; the detail says why
)

// Finding is what became of one check.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to type; empty: nothing
}

// Patient is a plane, and how it is spoken to.
type Patient struct {
	Client    *client.Client
	HTTP      *http.Client     // shows the same credentials as Client
	Server    *url.URL         // where the plane is said to be
	TokenFile string           // empty: no token is shown
	Typed     []Flag           // of how the plane is reached, as they were typed: remedies repeat them
	Version   string           // of this program
	Systemd   bool             // it runs on this machine
	Now       func() time.Time // nil: time.Now
}

// Flag is a flag of the command line, and its value.
type Flag struct{ Name, Value string }

// asks is a command that asks the plane that this client was pointed at: it repeats the flags
// that were typed, but those that the command has, or is to have, with other values.
func (p Patient) asks(command string, but ...string) string {
	for _, f := range p.Typed {
		if !slices.Contains(but, f.Name) {
			command += " --" + f.Name + " " + quoted(f.Value)
		}
	}
	return command
}

// quoted is a word as a POSIX shell reads it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+="
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// patience bounds one question.
const patience = 5 * time.Second

// Examine runs every check. If the plane does not answer, what it would have to be asked is
// skipped.
func Examine(ctx context.Context, p Patient) []Finding {
	if p.Now == nil {
		p.Now = time.Now
	}
	all := p.way(ctx)
	for _, f := range all {
		if f.State == Failed {
			return append(all, Finding{Check: "plane", State: Skipped, Detail: "nothing was asked of it"})
		}
	}
	caller := p.caller(ctx)
	all = append(all, caller, p.readiness(ctx))
	if caller.State == Failed {
		return append(all, Finding{Check: "plane", State: Skipped, Detail: "nothing else was asked of it: it does not know who asks"})
	}
	all = append(all, p.version(ctx))
	return append(all, p.status(ctx)...)
}

// Worst is the state of the worst finding.
func Worst(all []Finding) string {
	worst := OK
	for _, f := range all {
		if f.State == Failed || f.State == Warning && worst == OK {
			worst = f.State
		}
	}
	return worst
}
