//go:build !linux

package api

import "net"

func boundUnsent(net.Conn) {}
