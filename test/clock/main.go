// Clock writes an overlay for go build and go test: the clock of a program that is built with
// it can be stepped while it runs. Where EDICT_TEST_CLOCK names a file, time.Now is ahead of the
// machine's clock by the seconds that its first eight bytes say, in the machine's order, or behind
// it; timers go on as they do when an operator sets a clock.
//
//	go run ./test/clock FOLDER && go test -overlay FOLDER/overlay.json …
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// begin is where the standard library asks for the time.
const begin = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// stepped is one more file of its package.
const stepped = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var ahead = func() *int64 {
	name, ok := syscall.Getenv("EDICT_TEST_CLOCK")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		panic("EDICT_TEST_CLOCK: " + err.Error())
	}
	shared, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("EDICT_TEST_CLOCK: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&shared[0]))
}()

func step() int64 { return atomic.LoadInt64(ahead) }
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/clock FOLDER")
		os.Exit(2)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err == nil {
		err = write(os.Args[1], filepath.Join(strings.TrimSpace(string(root)), "src", "time"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
}

// write puts the overlay into dir; lib is the folder of the standard library's package time.
func write(dir, lib string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(lib, "time.go"))
	if err != nil {
		return err
	}
	if strings.Count(string(text), begin) != 1 {
		return errors.New("time.Now of this Go is not as expected: adapt test/clock")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	now, more := filepath.Join(dir, "time.go"), filepath.Join(dir, "step.go")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(lib, "time.go"): now,
		filepath.Join(lib, "step.go"): more,
	}})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(now, []byte(strings.Replace(string(text), begin, begin+"\tsec += step()\n", 1)), 0o600),
		os.WriteFile(more, []byte(stepped), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600))
}
