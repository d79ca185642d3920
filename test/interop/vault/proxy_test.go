package vault

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// proxy stands before a server and records the calls.
type proxy struct {
	*httptest.Server
	bundle []byte

	mu     sync.Mutex // guards what follows
	calls  []*call
	answer func(http.ResponseWriter, *http.Request) bool
}

// call is a call of the API, and the status of the answer.
type call struct {
	Method, Path, Namespace string
	Header                  http.Header
	Body                    map[string]any
	Status                  int
}

// startProxy starts a proxy for a test. Namespaces end there: the server may
// have none.
func startProxy(t *testing.T, to *peer) *proxy {
	t.Helper()
	target, err := url.Parse(to.url)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("X-Vault-Namespace")
		},
		Transport: to.client.Transport, ErrorLog: log.New(io.Discard, "", 0), // servers are stopped
	}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made := p.record(r)
		recorder := &statusRecorder{ResponseWriter: w}
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			made.Status = recorder.status
		}()
		p.mu.Lock()
		answer := p.answer
		p.mu.Unlock()
		if answer == nil || !answer(recorder, r) {
			forward.ServeHTTP(recorder, r)
		}
	}))
	p.Config.ErrorLog = forward.ErrorLog
	p.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// record keeps a call. The caller sets its status, while it holds mu.
func (p *proxy) record(r *http.Request) *call {
	body, _ := io.ReadAll(r.Body) // a client that has gone
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := &call{Method: r.Method, Path: r.URL.Path, Namespace: r.Header.Get("X-Vault-Namespace"), Header: r.Header.Clone()}
	_ = json.Unmarshal(body, &c.Body) // not every call has a body
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	return c
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// intercept answers calls in place of the server, if it reports that it has.
func (p *proxy) intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// with returns the calls so far to paths that contain a text.
func (p *proxy) with(text string) []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var some []call
	for _, c := range p.calls {
		if strings.Contains(c.Path, text) {
			some = append(some, *c)
		}
	}
	return some
}

// forget forgets the calls so far.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}
