package testservice

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort picks a free port of 127.0.0.1 below the range of outgoing
// connections, which begins at 32768: a server that is down for a restart must
// find its port free again.
func FreePort() (int, error) {
	for range 1000 {
		port := 15000 + rand.IntN(15000)
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue // taken
		}
		if err := l.Close(); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port of 127.0.0.1 between 15000 and 30000")
}

// FreePorts is n different ones.
func FreePorts(n int) ([]int, error) {
	seen := map[int]bool{}
	var ports []int
	for len(ports) < n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		if !seen[port] {
			seen[port] = true
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// Loopback is the address of a port of this machine.
func Loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
