//go:build !linux

package main

// Elsewhere servers and those who ask them share the cores.

func onOneCore(f func() error) error { return f() }

func offThatCore(f func() error) error { return f() }
