package filestore_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/internal/simtest/crashfs"
)

// TestOrder holds the exact order of operations on the disk: a lost sync is a
// line of difference.
func TestOrder(t *testing.T) {
	datadriven.Walk(t, "testdata/order", func(t *testing.T, path string) {
		o := &order{fs: crashfs.New()}
		o.reopen(t)
		datadriven.RunTest(t, path, o.run)
	})
}

type order struct {
	fs    *crashfs.FS
	st    *filestore.Store
	trace strings.Builder
	fails func(crashfs.Op) error
}

func (o *order) reopen(t *testing.T) {
	o.st = open(t, o.fs, "/data/job")
	o.fs.OnOp(func(op crashfs.Op) (err error) {
		if o.fails != nil {
			err = o.fails(op)
		}
		if op.Kind != "stat" && op.Kind != "list" && op.Kind != "open" {
			fmt.Fprint(&o.trace, op)
			if err != nil {
				fmt.Fprintf(&o.trace, " FAILS")
			}
			fmt.Fprintln(&o.trace)
		}
		return err
	})
}

var nonce = regexp.MustCompile(`\.tmp-[0-9a-f]+-`)

// errors of the system by the names the scenarios use.
var errnos = map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EPERM": syscall.EPERM, "ENOENT": fs.ErrNotExist}

func (o *order) run(t *testing.T, d *datadriven.TestData) string {
	o.trace.Reset()
	ctx, err := context.Background(), error(nil)
	if d.HasArg("fail") {
		var kind, part, errno string
		d.ScanArgs(t, "fail", &kind, &part, &errno)
		o.fails = crashfs.FailNth(kind, part, 1, errnos[errno])
	}
	name := ""
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "reopen":
		o.reopen(t)
	case "put":
		err = o.st.PutIfAbsent(ctx, name, []byte(d.Input))
	case "create":
		_, _, err = o.st.Create(ctx, name, bytes.NewReader([]byte(d.Input)))
	case "delete":
		err = o.st.Delete(ctx, name)
	case "note":
		err = o.st.Note(ctx, name, []byte(d.Input))
	case "leftover":
		h, e := o.fs.Create("/data/job/"+name, 0o600)
		if e == nil {
			e = h.Close()
		}
		err = e
	case "lock":
		_, _, err = o.st.Lock(ctx, checkpoint.Holder{Host: "h", PID: 1}, d.HasArg("take-over"))
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	o.fails = nil
	if err != nil {
		fmt.Fprintf(&o.trace, "error: %v\n", err)
	}
	return nonce.ReplaceAllString(o.trace.String(), ".tmp-#-")
}
