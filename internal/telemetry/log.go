package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"

	"github.com/lmittmann/tint"
)

// LogOptions say how events are written.
type LogOptions struct {
	// Level is debug, info, warn or error; default info.
	Level string
	// Format is text, json, or auto: text when Terminal is set, JSON otherwise.
	Format string
	// Terminal says that the writer is one: text gets colours.
	Terminal bool
}

// NewLogger returns a logger that writes to w: one line an event, repeats counted
// instead of written, control characters escaped.
func NewLogger(w io.Writer, o LogOptions) (*slog.Logger, error) {
	var level slog.Level
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, fmt.Errorf("log level %q is not debug, info, warn or error", o.Level)
		}
	}
	var h slog.Handler
	switch {
	case o.Format == "json" || o.Format != "text" && !o.Terminal:
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	default:
		h = printable{tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: !o.Terminal, ReplaceAttr: words})}
	}
	return slog.New(newLimiter(h)), nil
}

// words writes levels in full.
func words(groups []string, a slog.Attr) slog.Attr {
	l, ok := a.Value.Any().(slog.Level)
	if len(groups) > 0 || a.Key != slog.LevelKey || !ok {
		return a
	}
	color := map[slog.Level]uint8{slog.LevelDebug: 8, slog.LevelInfo: 10, slog.LevelWarn: 11, slog.LevelError: 9}[l]
	return tint.Attr(color, slog.String(slog.LevelKey, fmt.Sprintf("%-5s", l)))
}

// printable escapes what would move a terminal's cursor: a topic name, or the text
// of a broker's error, may hold anything. JSON escapes by itself.
type printable struct{ next slog.Handler }

func (p printable) Enabled(ctx context.Context, l slog.Level) bool { return p.next.Enabled(ctx, l) }

func (p printable) Handle(ctx context.Context, r slog.Record) error {
	c := slog.NewRecord(r.Time, r.Level, escape(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		c.AddAttrs(escapeAttr(a))
		return true
	})
	return p.next.Handle(ctx, c)
}

func (p printable) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = escapeAttr(a)
	}
	return printable{p.next.WithAttrs(out)}
}

func (p printable) WithGroup(name string) slog.Handler { return printable{p.next.WithGroup(name)} }

func escapeAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(escape(v.String()))
	case slog.KindAny:
		v = slog.StringValue(escape(fmt.Sprint(v.Any())))
	case slog.KindGroup:
		var inner []slog.Attr
		for _, g := range v.Group() {
			inner = append(inner, escapeAttr(g))
		}
		v = slog.GroupValue(inner...)
	}
	return slog.Attr{Key: escape(a.Key), Value: v}
}

// escape writes control characters as \n, \u001b and so on.
func escape(s string) string {
	if strings.IndexFunc(s, hostile) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case hostile(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hostile characters are control and format characters: the latter can turn the
// reading direction.
func hostile(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
