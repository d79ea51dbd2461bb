package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// onOneCore calls f, which starts a server, on this machine's first core: the server inherits it, and its runtime
// takes it for the whole machine. Where there is one core only, f starts as always.
func onOneCore(f func() error) error {
	if runtime.NumCPU() < 2 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read which cores are ours: %w", err)
	}
	first.Set(firstOf(&all))
	if err := unix.SchedSetaffinity(0, &first); err != nil {
		return fmt.Errorf("take one core: %w", err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &all))
}

// offThatCore calls f while this process leaves the first core to the server.
func offThatCore(f func() error) error {
	if runtime.NumCPU() < 2 {
		return f()
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return fmt.Errorf("read which cores are ours: %w", err)
	}
	others := all
	others.Clear(firstOf(&all))
	if err := eachThread(&others); err != nil {
		return err
	}
	procs := runtime.GOMAXPROCS(others.Count())
	defer runtime.GOMAXPROCS(procs)
	return errors.Join(f(), eachThread(&all))
}

// eachThread has every thread of this process run on these cores; later ones inherit them.
func eachThread(cores *unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("threads are listed by /proc: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, cores); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move a thread to other cores: %w", err)
		}
	}
	return nil
}

func firstOf(cores *unix.CPUSet) int {
	i := 0
	for !cores.IsSet(i) {
		i++
	}
	return i
}
