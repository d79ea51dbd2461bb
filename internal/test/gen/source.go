package gen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Sources looks at every file of the module that a program is made of. A test that
// builds the program calls it: go's test cache knows by what a test read whether its
// last result still holds, and sees nothing of what a `go build` within it read.
func Sources(program string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	const each = `{{with .Module}}{{if .Main}}{{$.Dir}}{{range $.EmbedFiles}}{{"\n"}}{{$.Dir}}/{{.}}{{end}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", each, program)
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list what %s is made of: %w", program, err)
	}
	for path := range strings.FieldsFuncSeq(string(list), func(r rune) bool { return r == '\n' }) {
		info, serr := os.Stat(path)
		if err = errors.Join(err, serr); serr == nil && info.IsDir() {
			_, rerr := os.ReadDir(path)
			err = errors.Join(err, rerr)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		_, serr := os.Stat(filepath.Join(root, name))
		err = errors.Join(err, serr)
	}
	return err
}

// Files looks at every file below a folder of the module, as Sources does, for a test
// that has another program read them. What npm installed is not the module's.
func Files(folder string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "node_modules":
			return filepath.SkipDir
		case d.IsDir():
			return nil // walking opens it
		}
		_, err = os.Stat(path)
		return err
	})
}
