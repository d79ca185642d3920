package hostile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// Writes end in time while many clients of an administrator, who has no limits, watch all
// requests and read the events: the store has precedence over watchers.
func TestWatchers(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("10,000 watches take all of a machine: make hostile")
	}
	const connections, watches = 100, 100
	w := start(t)
	ctx, stop := context.WithCancel(t.Context())
	var open, opening sync.WaitGroup
	var read, ended, complete atomic.Int64
	for range connections {
		admin, err := client(w.Admin(t), false)
		if err != nil {
			t.Fatal(err)
		}
		// The connection that the watches share.
		if err := w.do(ctx, admin, http.MethodGet, "/version", nil, nil); err != nil {
			t.Fatal(err)
		}
		opening.Add(watches)
		open.Go(func() {
			defer admin.CloseIdleConnections()
			var streams sync.WaitGroup
			for range watches {
				streams.Go(func() {
					err := w.watch(ctx, admin, &read, sync.OnceFunc(opening.Done), sync.OnceFunc(func() { complete.Add(1) }))
					if ended.Add(1) == 1 && ctx.Err() == nil {
						t.Errorf("a watch has ended: %v", err)
					}
				})
			}
			streams.Wait()
		})
	}
	opening.Wait()
	begin := time.Now()
	w.observe(t, slices.DeleteFunc(w.observers(t), func(o *observer) bool { return o.name == "an ACME client begins" }))
	t.Logf("%d KiB of events were read in %v; the server has %d MiB", read.Load()>>10, time.Since(begin).Round(time.Millisecond), w.memory())
	last := newRequest(t, "example.com/x", pki.Subject{CommonName: "x"})
	last.Name = lastRequest
	apitest.Create(t, w.admin, last)
	apitest.Eventually(t, "all clients know of the last request", func() bool { return complete.Load() == connections*watches })
	t.Logf("all of %d KiB after %v", read.Load()>>10, time.Since(begin).Round(time.Millisecond))
	stop()
	open.Wait()
}

// lastRequest is the name of the request after which watches are complete.
const lastRequest = "the-last"

// watch reads the events of all requests until the watch ends.
func (w *world) watch(ctx context.Context, who *http.Client, read *atomic.Int64, opened, complete func()) error {
	defer opened()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+requestsPath+"?watch=true&resourceVersion=0", nil)
	if err != nil {
		return err
	}
	response, err := who.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watching: %s", response.Status)
	}
	opened()
	for events := bufio.NewReader(response.Body); ; {
		event, err := events.ReadBytes('\n')
		read.Add(int64(len(event)))
		if err != nil {
			return err
		}
		if bytes.Contains(event, []byte(`"name":"`+lastRequest+`"`)) {
			complete()
		}
	}
}
