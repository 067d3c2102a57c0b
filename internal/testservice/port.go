package testservice

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// reserved keeps, for the life of this program, the sockets by which other test programs
// see that a port is taken although nobody listens there: its server is being started, or
// is down to be started again. Servers use TCP, so UDP is free to say so.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreePort picks a free port of 127.0.0.1 below the range of outgoing
// connections, which begins at 32768: a server that is down for a restart must
// find its port free again. No other program that asks here is given it while this one
// lives, nor is this one again: two servers on one port are one server, which answers for
// both, and is killed under both.
func FreePort() (int, error) {
	reserved.Lock()
	defer reserved.Unlock()
	for range 1000 {
		port := 15000 + rand.IntN(15000)
		u, err := net.ListenPacket("udp4", Loopback(port))
		if err != nil {
			continue // somebody's who asked here
		}
		l, err := net.Listen("tcp4", Loopback(port))
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			_ = u.Close() // nothing was written
			continue
		}
		reserved.sockets = append(reserved.sockets, u)
		return port, nil
	}
	return 0, fmt.Errorf("no free port of 127.0.0.1 between 15000 and 30000")
}

// FreePorts is n different ones.
func FreePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// Loopback is the address of a port of this machine.
func Loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
