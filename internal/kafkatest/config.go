package kafkatest

import (
	"fmt"
	"slices"
	"strings"

	"etl/internal/testservice"
)

// Config says what a broker is like. The zero value is the usual one: newest
// feature levels, 512 MB of heap, plain listener, quick to start.
type Config struct {
	// Via is the way the broker runs. Default: the first that works here.
	Via testservice.Via
	// Heap is the JVM's -Xmx and -Xms. Default "512m".
	Heap string
	// Throughput trades a quick start for speed (G1, all compiler tiers): for benchmarks.
	Throughput bool
	// Properties are further lines of server.properties, e.g.
	// transactional.id.expiration.ms; they win over ours. With
	//	authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer
	//	super.users:           User:ANONYMOUS
	// and Secure, a SASL user has only the rights that a test grants.
	Properties map[string]string
	// TransactionVersion is the level to format transaction.version with, e.g. 1.
	// Default 0: the broker's newest, which is 2.
	TransactionVersion int
	// Proxy adds a listener behind toxiproxy. Who connects through
	// [Server.Proxy] stays on it, since the broker advertises the proxy's address.
	Proxy bool
	// Secure adds listeners with TLS, with SASL, and with both; see [Security].
	Secure bool
	// LogLevel is the broker's, e.g. "info". Default "warn".
	LogLevel string
}

// usual says that a broker somebody else runs will do as well.
func (c Config) usual() bool {
	return !c.Throughput && !c.Proxy && !c.Secure && len(c.Properties) == 0 && c.TransactionVersion == 0
}

// listener is one address of the broker. Inside and outside of a container the
// port is the same, so that the broker can reach itself by what it advertises.
type listener struct {
	name, protocol string
	port           int
	advertised     string
}

// settings renders the lines that are appended to the entry point's own.
func (c Config) settings(bind string, ls []listener, controller int, sec *Security) string {
	var listen, advertise, protocols []string
	for _, l := range ls {
		listen = append(listen, fmt.Sprintf("%s://%s:%d", l.name, bind, l.port))
		advertise = append(advertise, l.name+"://"+l.advertised)
		protocols = append(protocols, l.name+":"+l.protocol)
	}
	control := testservice.Loopback(controller)
	props := map[string]string{
		"listeners":                      strings.Join(append(listen, "CONTROLLER://"+control), ","),
		"advertised.listeners":           strings.Join(advertise, ","),
		"listener.security.protocol.map": strings.Join(append(protocols, "CONTROLLER:PLAINTEXT"), ","),
		"controller.quorum.voters":       "1@" + control,
	}
	if sec != nil {
		sec.addTo(props)
	}
	for k, v := range c.Properties {
		props[k] = v
	}
	return render(props)
}

// render writes a properties file. Newlines inside a value (PEM) become \n, which Java reads back.
func render(props map[string]string) string {
	var lines []string
	for k, v := range props {
		lines = append(lines, k+"="+strings.ReplaceAll(v, "\n", `\n`))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// environment is what the entry point reads.
func (c Config) environment() map[string]string {
	env := map[string]string{}
	if c.Heap != "" {
		env["KAFKA_HEAP"] = c.Heap
	}
	if c.Throughput {
		env["KAFKA_JVM"] = "-XX:+UseG1GC -XX:MaxGCPauseMillis=20"
	}
	if c.TransactionVersion != 0 {
		env["KAFKA_FEATURES"] = fmt.Sprintf("transaction.version=%d", c.TransactionVersion)
	}
	if c.LogLevel != "" {
		env["KAFKA_LOG"] = c.LogLevel
	}
	return env
}
