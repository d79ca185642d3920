package server_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// link forwards connections to another address. While cut is locked, nothing passes and nothing
// is closed.
type link struct {
	net.Listener
	cut sync.RWMutex
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l := &link{Listener: listener}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go l.pass(near, far)
			go l.pass(far, near)
		}
	}()
	return l
}

func (l *link) pass(from, to net.Conn) {
	defer to.Close()
	_, _ = io.Copy(gated{to, &l.cut}, from)
}

type gated struct {
	io.Writer
	cut *sync.RWMutex
}

func (g gated) Write(data []byte) (int, error) {
	g.cut.RLock()
	defer g.cut.RUnlock()
	return g.Writer.Write(data)
}

// A server that may not know all revocations says so, and goes on.
func TestNotReadyWithoutNewsOfRevocations(t *testing.T) {
	t.Parallel()
	store := startExternalEtcd(t)
	link := newLink(t, strings.TrimPrefix(store.Servers[0], "https://"))
	store.Servers = []string{"https://" + link.Addr().String()}
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Etcd = store })
	get := func(path string) error {
		return apitest.Client(t, s.Admin(t)).Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
	}
	if err := get("/readyz/revocation"); err != nil {
		t.Fatal(err)
	}
	link.cut.Lock()
	restore := sync.OnceFunc(link.cut.Unlock)
	defer restore()
	begin, watch := time.Now(), apitest.StartStopwatch(t)
	apitest.Eventually(t, "the check fails", func() bool { return get("/readyz/revocation") != nil })
	if after, counted := time.Since(begin), watch.Elapsed(); after < 9*time.Second || counted > 15*time.Second {
		t.Errorf("the check fails after %s, of which %s count, want 10s", after, counted)
	}
	if err := get("/version"); err != nil {
		t.Errorf("requests do not go on: %v", err)
	}
	restore()
	apitest.Eventually(t, "the check works again", func() bool { return get("/readyz/revocation") == nil })
}
