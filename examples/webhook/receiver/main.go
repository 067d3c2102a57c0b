// Command receiver is an endpoint for the example: it remembers the keys of requests, so
// that it takes each row once, and writes the rows it has taken to a file, one a line. A
// row with a negative total is refused.
//
//	receiver ADDRESS FILE
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: receiver ADDRESS FILE")
		os.Exit(2)
	}
	f, err := os.Create(os.Args[2])
	if err == nil {
		s := &http.Server{Addr: os.Args[1], Handler: &receiver{file: f, taken: map[string]bool{}}, ReadHeaderTimeout: 10 * time.Second}
		err = s.ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, "receiver:", err)
	os.Exit(1)
}

type receiver struct {
	mu    sync.Mutex
	file  *os.File
	taken map[string]bool // keys; a real endpoint keeps them with its rows, in one transaction
}

// ServeHTTP takes the rows of a request, all or none.
func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var rows []json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&rows); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := ""
	for _, row := range rows {
		var order struct{ Total float64 }
		if err := json.Unmarshal(row, &order); err != nil || order.Total < 0 {
			http.Error(w, "the total is negative", http.StatusUnprocessableEntity)
			return
		}
		out += string(row) + "\n"
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if rc.taken[key] {
		return
	}
	if _, err := rc.file.WriteString(out); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	rc.taken[key] = true
}
