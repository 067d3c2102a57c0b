package kafka

import (
	"etl/config"
	"etl/internal/kafkaconn"
)

// Letters is a sink of dead letters that writes a topic.
type Letters struct {
	// Sink is its name, From the components whose dead letters it takes.
	Sink  string
	From  []string
	Conn  kafkaconn.Config
	Topic string
	// Prefix begins the names of its transactions, which access rules may demand.
	Prefix string
	// Raw says that it writes dead letters as records, with headers; otherwise it
	// writes fields of them.
	Raw bool
}

// LettersOf returns the sinks of dead letters of a job that write topics, in the order
// of the file.
func LettersOf(job *config.Job) (out []Letters) {
	for _, c := range job.Components {
		s, ok := c.Spec().(*Sink)
		if !ok || len(c.LettersOf()) == 0 {
			continue
		}
		l := Letters{Sink: c.Name, From: c.LettersOf(), Topic: s.Topic, Prefix: s.Prefix, Raw: c.LettersAreRaw()}
		if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
			l.Conn = conn.Conn()
		}
		out = append(out, l)
	}
	return out
}

// Cluster is what a job reads from one connection.
type Cluster struct {
	// Connection is its name.
	Connection string
	Conn       kafkaconn.Config
	Topics     []string
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
	return out
}
