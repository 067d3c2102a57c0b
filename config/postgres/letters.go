package postgres

import (
	"etl/config"
	"etl/internal/pgconn"
	"etl/sink/sqltxn"
)

// Letters is a sink of dead letters that writes a table.
type Letters struct {
	// Sink is its name.
	Sink          string
	Conn          pgconn.Config
	Schema, Table string
	// Fields are the columns that hold the fields of letters.
	Fields config.LetterFields
}

// LettersOf returns what a sink of dead letters writes; ok is false when c is none that
// writes a table.
func LettersOf(c *config.Component) (l Letters, ok bool) {
	s, ok := c.Spec().(*Sink)
	if !ok || len(c.LettersOf()) == 0 {
		return l, false
	}
	l = Letters{Sink: c.Name, Fields: config.LetterFieldsOf(s.Columns)}
	l.Schema, l.Table, _ = sqltxn.SplitTable(s.Table)
	if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
		l.Conn = conn.Conn()
	}
	return l, true
}
