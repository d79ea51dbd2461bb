package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Build says which build of a program this is. What is not known is empty.
type Build struct {
	Version  string `json:"version"` // of the release; devel: of none
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // the sources differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// ReadBuild reads what the Go toolchain wrote into this program.
func ReadBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return buildOf(info)
}

func buildOf(info *debug.BuildInfo) Build {
	b := Build{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

// String is the build on one line, without the program's name.
func (b Build) String() string {
	var commit []string
	if b.Commit != "" {
		commit = append(commit, "commit "+b.Commit)
	}
	if b.Modified {
		commit = append(commit, "modified")
	}
	if b.Date != "" {
		commit = append(commit, b.Date)
	}
	text := b.Version
	if len(commit) > 0 {
		text += " (" + strings.Join(commit, ", ") + ")"
	}
	return fmt.Sprintf("%s %s %s", text, b.Go, b.Platform)
}

// VersionFlag gives a program --version.
func VersionFlag(root *cobra.Command) {
	root.Version = ReadBuild().String()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
}
