// Package peer is about the other side of a connection before it has answered: what it
// may be instead of the server that was meant, and that somebody is waiting for it.
//
// # The first answer
//
// [Conn] looks at the first bytes that come. A web server or a TLS listener behind the
// address is a [Stranger], whatever the client would have made of the bytes. A side that
// takes connections and says nothing, or cuts them, is [Silence]. After the first answer
// a Conn does nothing any more.
//
// # Waiting
//
// Clients are patient: they dial again for half a minute and more. A [Watch] stands
// between them and the network and tells, while a server that was never reached, or went
// away, is being waited for, what is seen of it. It changes nothing and ends nothing.
// Only servers that [Named] gave a name are told of. Time comes from the clock it is
// given.
package peer
