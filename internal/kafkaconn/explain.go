package kafkaconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/peer"
	"etl/stream"
)

// Kind is a kind of resource that Kafka guards.
type Kind string

// The kinds of resources.
const (
	Topic           Kind = "topic"
	Group           Kind = "group"
	TransactionalID Kind = "transactional id"
	Cluster         Kind = "cluster"
)

// Access is a right that a request needs, so that its refusal can name it.
type Access struct {
	Kind      Kind
	Name      string // empty for Cluster
	Operation string // READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, ALTER, CLUSTER_ACTION
}

// String returns "WRITE on topic out".
func (a Access) String() string {
	s := a.Operation + " on " + string(a.Kind)
	if a.Name != "" {
		s += " " + a.Name
	}
	return s
}

// Explain turns an error of a client, or of a broker's answer, into a stream.Error:
// what was being done, to what, why it failed, and what to do. needs are the rights
// the request takes; a refusal names the one that is missing. An error that is
// explained already, and the end of a context, come back as they are; nil is nil.
//
// Only what cannot get better by itself has class Environment or BadConfig; the rest
// is Retry, or Failed when nothing is known about it.
func Explain(err error, op string, needs ...Access) error {
	var known *stream.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !transport(err):
		return err
	}
	subject := ""
	if len(needs) > 0 && needs[0].Name != "" {
		subject = string(needs[0].Kind) + " " + needs[0].Name
	}
	e := &stream.Error{Class: stream.Failed, Code: "kafka.failed", Op: op, Subject: subject, Err: err}
	for _, explain := range []func(*stream.Error, []Access) bool{byRight, byCode, byTransport} {
		if explain(e, needs) {
			break
		}
	}
	return e
}

var refusals = map[*kerr.Error]Kind{
	kerr.TopicAuthorizationFailed:           Topic,
	kerr.GroupAuthorizationFailed:           Group,
	kerr.TransactionalIDAuthorizationFailed: TransactionalID,
	kerr.ClusterAuthorizationFailed:         Cluster,
}

// Refused reports whether a broker refused a right.
func Refused(err error) bool {
	for code := range refusals {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

func byRight(e *stream.Error, needs []Access) bool {
	for code, kind := range refusals {
		if !errors.Is(e.Err, code) {
			continue
		}
		missing := "the right to use the " + string(kind)
		for _, a := range needs {
			if a.Kind == kind {
				missing = a.String()
				e.Subject = string(a.Kind) + " " + a.Name
				break
			}
		}
		e.Class, e.Code = stream.Environment, "kafka.acl"
		e.Fix = "grant " + missing + " to this job's principal"
		return true
	}
	return false
}

// byCode explains broker answers that have one usual reason.
func byCode(e *stream.Error, _ []Access) bool {
	switch err := e.Err; {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		e.Class, e.Code = stream.Environment, "kafka.topic_missing"
		e.Fix = "create the topic; it is never created automatically"
	case errors.Is(err, kerr.CoordinatorNotAvailable):
		e.Class, e.Code = stream.Environment, "kafka.coordinator"
		e.Fix = "the internal topics __transaction_state and __consumer_offsets cannot be created or have no leader: on a cluster with fewer than 3 brokers set transaction.state.log.replication.factor, transaction.state.log.min.isr and offsets.topic.replication.factor to what it can hold"
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		e.Class, e.Code = stream.BadConfig, "kafka.timeout_above_broker_maximum"
		e.Fix = "lower transaction_timeout, or raise transaction.max.timeout.ms on the brokers"
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		e.Class, e.Code = stream.Environment, "kafka.sasl"
		e.Fix = "check sasl.mechanism, username and password"
	case errors.Is(err, kerr.UnsupportedVersion):
		e.Class, e.Code = stream.Environment, "kafka.version"
		e.Fix = "use brokers of Apache Kafka 3.0 or newer"
	case kerr.IsRetriable(err), errors.Is(err, kerr.ConcurrentTransactions), errors.Is(err, kerr.UnknownServerError):
		e.Class, e.Code = stream.Retry, "kafka.retry"
	default:
		return false
	}
	return true
}

// byTransport explains connections that came to nothing. One that was closed at once is
// what a wrong setting of TLS or SASL looks like, and also a proxy whose broker is just
// restarting: the hint is given, and the call may be made again.
func byTransport(e *stream.Error, _ []Access) bool {
	var shake *handshakeError
	var first *kgo.ErrFirstReadEOF
	var stranger *peer.Stranger
	var silence *peer.Silence
	e.Class = stream.Retry
	switch err := e.Err; {
	case errors.As(err, &shake):
		byHandshake(e, shake)
	case errors.As(err, &stranger) && stranger.Speaks == peer.HTTP:
		*e = wrongPort(*e)
	case errors.As(err, &stranger):
		e.Class, e.Code = stream.Environment, "kafka.tls"
		e.Fix = "add tls to the connection ({} for the system's certificates), or name a listener without TLS"
	case errors.As(err, &first) && strings.Contains(err.Error(), "SASL"):
		e.Code, e.Fix = "kafka.sasl", "if it stays so: this listener asks for authentication, add sasl"
	case errors.As(err, &first), errors.As(err, &silence) && silence.Cut:
		e.Code, e.Fix = "kafka.tls", "if it stays so: this listener may want TLS, or not want it"
	case errors.As(err, &silence):
		e.Code, e.Fix = "kafka.unreachable", "see whether the broker hangs, and whether this is the port of a Kafka listener: a web server waits like that, too, and so does a listener that wants TLS (then add tls)"
	case transport(err):
		e.Code, e.Fix = "kafka.unreachable", "check the broker's address, that it runs, and the network between"
	default:
		e.Class = stream.Failed
		return false
	}
	return true
}

// byHandshake explains a TLS handshake that came to nothing.
func byHandshake(e *stream.Error, shake *handshakeError) {
	e.Code, e.Fix = "kafka.tls", "check tls.ca_file and tls.server_name, and that this listener speaks TLS"
	var header tls.RecordHeaderError
	switch err := shake.err; {
	case errors.As(err, &header) && string(header.RecordHeader[:4]) == peer.HTTP:
		*e = wrongPort(*e)
		e.Err = &seen{"broker " + shake.addr + ": this port speaks " + peer.HTTP, e.Err}
	case errors.As(err, &header):
		e.Class, e.Fix = stream.Environment, "this listener speaks no TLS: remove tls from the connection, or name one that does"
	case errors.Is(err, context.DeadlineExceeded):
		e.Err = &seen{"broker " + shake.addr + " accepts connections and does not answer the TLS handshake", e.Err}
		e.Fix = "see whether this listener speaks TLS, and whether the broker hangs"
	case !transport(err) || alerted(err):
		e.Class = stream.Environment
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		e.Err = &seen{"broker " + shake.addr + " closed the connection during the TLS handshake", e.Err}
		e.Fix = "if it stays so: this listener may not speak TLS, then remove tls from the connection; else check tls.ca_file and tls.server_name"
	}
}

// seen words what was seen, where the client's own words guess, or leave out which broker
// it was.
type seen struct {
	text string
	err  error
}

func (e *seen) Error() string { return e.text }
func (e *seen) Unwrap() error { return e.err }

// wrongPort is for a port behind which there is no broker.
func wrongPort(e stream.Error) stream.Error {
	e.Class, e.Code = stream.Environment, "kafka.wrong_port"
	e.Fix = "name the port of a Kafka listener under seed_brokers, usually 9092: this one is a web server's"
	return e
}

// alerted reports whether the other side refused the handshake in so many words.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// transport reports whether err is about a connection and not an answer.
func transport(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var sys *os.SyscallError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &sys) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || // of dialers that are no sockets: tunnels, tests
		kgo.IsRetryableBrokerErr(err)
}

// CodeName returns Kafka's name of an error code, "NONE" for 0.
func CodeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	var ke *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &ke) {
		return ke.Message
	}
	return fmt.Sprintf("code %d", code)
}
