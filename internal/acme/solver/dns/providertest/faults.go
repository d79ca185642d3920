package providertest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

// faults is an API that gives another answer to one of the calls.
type faults struct {
	next http.Handler

	mu    sync.Mutex
	calls int
	at    int // -1: none
	fault http.HandlerFunc
	write func()

	serve sync.Mutex // stand-ins serve one call at a time
}

func (f *faults) inject(at int, fault http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.at, f.fault = 0, at, fault
}

func (f *faults) onWrite(act func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write = act
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	handler, write := http.Handler(f.next), func() {}
	faulty := f.calls == f.at
	if faulty {
		handler = f.fault
	}
	f.calls++
	if f.write != nil && isWrite(r) {
		write, f.write = f.write, nil
	}
	f.mu.Unlock()
	write()
	if faulty {
		handler.ServeHTTP(w, r)
		return
	}
	f.serve.Lock()
	defer f.serve.Unlock()
	handler.ServeHTTP(w, r)
}

// isWrite reports whether a call changes records. Forms are for tokens.
func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}

// ReadBody returns the body of a request, which can be read again.
func ReadBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}
