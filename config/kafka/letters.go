package kafka

import (
	"etl/config"
	"etl/internal/kafkaconn"
)

// Letters is a sink of dead letters that writes a topic.
type Letters struct {
	// Sink is its name.
	Sink  string
	Conn  kafkaconn.Config
	Topic string
	// Prefix begins the names of its transactions, which access rules may demand.
	Prefix string
	// Raw says that it writes dead letters as records, with headers; otherwise it
	// writes fields of them.
	Raw bool
}

// Cluster is what a job reads from one connection.
type Cluster struct {
	// Connection is its name.
	Connection string
	Conn       kafkaconn.Config
	Topics     []string
	// Prefix begins the names of transactions there, as the first sink of the job that
	// writes to the connection has it; "" when none does.
	Prefix string
}

// LettersOf returns what a sink of dead letters writes; ok is false when c is none that
// writes a topic.
func LettersOf(c *config.Component) (l Letters, ok bool) {
	s, ok := c.Spec().(*Sink)
	if !ok || len(c.LettersOf()) == 0 {
		return l, false
	}
	l = Letters{Sink: c.Name, Topic: s.Topic, Prefix: s.Prefix, Raw: c.LettersAreRaw()}
	if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
		l.Conn = conn.Conn()
	}
	return l, true
}

// SourcesOf returns the topics that a job reads, by connection, in the order of the
// file.
func SourcesOf(job *config.Job) (out []Cluster) {
	at := map[string]int{}
	for _, c := range job.Components {
		s, ok := c.Spec().(*Source)
		if !ok {
			continue
		}
		i, there := at[s.Connection]
		if !there {
			conn := config.Connected[Connection](c, "connection", s.Connection)
			if conn == nil {
				continue
			}
			i = len(out)
			at[s.Connection] = i
			out = append(out, Cluster{Connection: s.Connection, Conn: conn.Conn()})
		}
		out[i].Topics = append(out[i].Topics, s.Topics...)
	}
	for _, c := range job.Components {
		if s, ok := c.Spec().(*Sink); ok {
			if i, read := at[s.Connection]; read && out[i].Prefix == "" {
				out[i].Prefix = s.Prefix
			}
		}
	}
	return out
}
