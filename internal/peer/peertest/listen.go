// Package peertest stands at the other side of a connection: a listener that is no server
// of the kind that is dialled.
package peertest

import (
	"net"
	"testing"
)

// Listen returns the address of a listener whose connections go to serve, one after the
// other. Those that serve leaves open stay so until the test ends.
func Listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			open = append(open, c)
			serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, c := range open {
			_ = c.Close()
		}
	})
	return l.Addr().String()
}
