// Package freeport finds addresses at which tests and the demo can listen.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports to choose from. They are below those that systems give to outgoing
// connections (from 32768 on Linux, from 49152 elsewhere): one of these could be taken
// by a connection of another program before the server listens.
const (
	firstPort = 10000
	pastPorts = 32000
)

// chosen has the ports that this process has chosen.
var chosen sync.Map

// Address returns an address on loopback, HOST:PORT, at which nothing listens. It
// returns none twice. Another process can take it, but is not likely to.
func Address() (string, error) {
	for range pastPorts - firstPort {
		port := firstPort + rand.IntN(pastPorts-firstPort)
		if _, twice := chosen.LoadOrStore(port, true); twice {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free on 127.0.0.1")
}
