package sqltxn

import (
	"time"

	"etl/expr"
)

// epoch2000 is where PostgreSQL counts from, in microseconds since 1970.
const epoch2000 = 946684800 * int64(1e6)

// zoned are the forms of a point in time: RFC 3339, and what databases print.
var zoned = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07"}

// plain are the forms of a local time.
var plain = []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}

// appendTime reads a date or time. It is rounded to microseconds, which is all the types
// hold.
func (t *Type) appendTime(dst []byte, s string) ([]byte, error) {
	switch t.form {
	case timestamptzForm:
		at, ok := parseTime(s, zoned)
		if !ok {
			return dst, badValue("a text that is no time with an offset, such as 2006-01-02T15:04:05Z")
		}
		return be.AppendUint64(dst, uint64(micros(at)-epoch2000)), nil
	case timestampForm:
		at, ok := parseTime(s, plain)
		if !ok {
			return dst, badValue("a text that is no time without an offset, such as 2006-01-02T15:04:05")
		}
		return be.AppendUint64(dst, uint64(micros(at)-epoch2000)), nil
	case dateForm:
		at, ok := parseTime(s, []string{time.DateOnly})
		if !ok {
			return dst, badValue("a text that is no date such as 2006-01-02")
		}
		const day = 24 * 60 * 60
		return be.AppendUint32(dst, uint32(int32(floorDiv(int(at.Unix()), day)-int(epoch2000/1e6/day)))), nil
	}
	at, ok := parseTime(s, []string{"15:04:05.999999999", "15:04"})
	if !ok {
		return dst, badValue("a text that is no time of day such as 15:04:05")
	}
	sinceMidnight := int64(at.Hour()*3600+at.Minute()*60+at.Second())*1e6 + (int64(at.Nanosecond())+500)/1000
	return be.AppendUint64(dst, uint64(sinceMidnight)), nil
}

func parseTime(s string, forms []string) (time.Time, bool) {
	for _, f := range forms {
		if at, err := time.Parse(f, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// micros returns microseconds since 1970, rounded.
func micros(t time.Time) int64 { return t.Unix()*1e6 + (int64(t.Nanosecond())+500)/1000 }

// maxMillis is the end of the year 9999 and minMillis the beginning of the year 1.
const (
	maxMillis = 253402300799999
	minMillis = -62135596800000
)

// appendMillis writes a time that is given in milliseconds since 1970, as Kafka does.
func (t *Type) appendMillis(dst []byte, v expr.Value) ([]byte, error) {
	n, _ := v.Number()
	if !n.IsInt() {
		return dst, t.refuse(v.Kind())
	}
	ms, _ := n.Int64()
	if ms < minMillis || ms > maxMillis {
		return dst, badValue("a number of milliseconds that is no time between the years 1 and 9999")
	}
	return be.AppendUint64(dst, uint64(ms*1000-epoch2000)), nil
}
